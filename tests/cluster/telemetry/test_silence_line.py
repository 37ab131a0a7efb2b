"""Lines while nothing else is printed."""

import io
import time

import pytest
from rich.console import Console

from pyrite.cluster.output.screen import Screen
from pyrite.cluster.telemetry.silence_line import silence_shown


def lines_until(written: io.StringIO, count: int) -> list[str]:
    """Wait until so many lines are written."""
    while len(lines := written.getvalue().splitlines()) < count:
        time.sleep(0.005)
    return lines


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("reading pairs …", "reading pairs … 0 s"),
        ("[dim]making bm25 lists …[/]", "making bm25 lists … 0 s"),
        ("A = negatives.bm25=0", "still running, 0 s after the last line"),
        ("reading a[0].csv …", "reading a[0].csv … 0 s"),
    ],
)
def test_the_last_line_is_said_again(printed, expected):
    written = io.StringIO()
    console = Screen(file=written, width=100)
    with silence_shown(console, every=0.01):
        console.print(printed, markup="[dim]" in printed)
        lines = lines_until(written, 3)
    assert lines[1:3] == [expected, expected]


def test_nothing_is_said_while_there_are_other_lines():
    written = io.StringIO()
    console = Screen(file=written, width=100)
    with silence_shown(console, every=60):
        console.print("one …")
        console.spoke_at -= 30
        time.sleep(0.01)
    assert written.getvalue() == "one …\n"


@pytest.mark.parametrize(
    "console", [Screen(file=io.StringIO(), quiet=True), Screen(file=io.StringIO(), force_terminal=True)]
)
def test_terminals_and_quiet_consoles_get_no_lines(console):
    with silence_shown(console, every=0.001):
        time.sleep(0.02)
    assert console.file.getvalue() == ""


def test_other_consoles_are_left_alone():
    console = Console(file=io.StringIO())
    with silence_shown(console, every=0.001):
        time.sleep(0.02)
    assert console.file.getvalue() == ""
