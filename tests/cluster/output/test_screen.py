import io
import logging

from rich.table import Table

from pyrite.cluster.output.screen import Screen, show_warnings
from pyrite.cluster.output.terminal import print_lines, visible

HOSTILE = "title \x1b]0;owned\x07 cleared \x1b[2J c1 \x9b31m"


def test_texts_in_lines_and_tables_are_shown_and_colours_stay():
    file = io.StringIO()
    screen = Screen(file=file, force_terminal=True, width=120)
    print_lines(screen, HOSTILE)
    table = Table()
    table.add_column("id")
    table.add_row(HOSTILE)
    screen.print(table)
    screen.print("[red]warm[/] t1.py:train:")
    printed = file.getvalue()
    assert printed.count(r"\x1b]0;owned") == printed.count(r"cleared \x1b[2J c1 \x9b31m") == 2
    assert "\x1b]" not in printed
    assert "\x1b[2J" not in printed
    assert "\x9b" not in printed
    assert "\x1b[31mwarm\x1b[0m t1.py:train:" in printed


def test_tabs_and_lines_stay():
    assert visible("a\tb\nc\rd\x7f") == "a\tb\nc\\x0dd\\x7f"


def test_warnings_show_them(capsys, monkeypatch):
    monkeypatch.setattr(logging, "lastResort", logging._StderrHandler(logging.WARNING))
    show_warnings()
    logging.lastResort.handle(logging.makeLogRecord({"msg": HOSTILE, "levelno": logging.WARNING}))
    assert r"\x1b[2J" in (said := capsys.readouterr().err)
    assert "\x1b" not in said


def test_the_error_line_of_a_command_shows_them(refusal):
    said = refusal("list", "no\x1b[2J")
    assert r"no\x1b[2J: is no folder" in said
    assert "\x1b" not in said
