import io
import math
import sys
from types import SimpleNamespace

import pytest
from rich.console import Console

from cluster.output.throttle import Throttle
from cluster.telemetry.live_table import LiveTable, duration, spark


@pytest.mark.parametrize("width", [70, 100])
def test_a_frame_fits_and_says_what_matters(width):
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    table = LiveTable(console, total=5, done=1, measure="AP@100")
    for name in ("good", "bad", "diverged", "waiting"):
        table.start(name)
    for epoch, value in enumerate((0.1, 0.2, math.nan), 1):
        table.progress("diverged", {"epoch": epoch, "max_epochs": 9, "validation": value})
    table.end("good", 0.5)
    table.end("bad", 0.25)
    console.print(table.render())
    shown = console.file.getvalue()
    lines = shown.splitlines()
    assert max(map(len, lines)) <= width
    assert "3/5 runs" in shown
    assert any("best" in line and "good" in line and "0.5000" in line for line in lines)
    assert any("worst" in line and "bad" in line for line in lines)
    assert "nan" not in next(line for line in lines if line.startswith("waiting"))


def test_runs_that_failed_and_the_time_left_are_counted(monkeypatch):
    table = LiveTable(Console(file=io.StringIO()), total=2, done=0, measure="AP")
    table.start("a")
    table.retried += 1
    table.start("a")
    table.fail("a")
    assert "1 failed" in table.outlook()
    assert "1 retried" in table.outlook()
    assert table.states == {"waiting": 1, "running": 0, "done": 0, "failed": 1, "stopped": 0}
    clock = SimpleNamespace(monotonic=lambda: now)
    monkeypatch.setattr("cluster.telemetry.live_table.time", clock)
    now = 0.0
    table = LiveTable(Console(file=io.StringIO()), total=4, done=0, measure="AP")
    now = 100.0  # texts and lists
    table.start("a")
    now = 110.0
    table.end("a", 0.5)
    assert "about 30 s left" in table.outlook()


def test_a_notebook_shows_the_table_in_one_cell(monkeypatch):
    shown: list[str] = []

    class Cell:
        def __init__(self, content: dict[str, str]) -> None:
            self.update(content)

        def update(self, content: dict[str, str], raw: bool = True) -> None:
            shown.append(content["text/plain"])

    display = SimpleNamespace(display=lambda content, raw, display_id: Cell(content))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(display=display))
    monkeypatch.setattr("cluster.telemetry.live_table.Throttle", lambda every: Throttle(1e9))  # due once
    with LiveTable(Console(force_jupyter=True, file=io.StringIO()), 2, 0, "AP@10") as table:
        table.start("one")
        for _ in range(100):
            table.progress("one", {"epoch": 1, "max_epochs": 2, "validation": 0.25})
        table.end("one", 0.25)
    assert len(shown) == 3
    assert "0/2 runs" in shown[0]
    assert "best   one" in shown[-1]
    assert "1/2 runs" in shown[-1]


def test_without_a_terminal_progress_is_a_line_when_there_is_some():
    written = io.StringIO()
    with LiveTable(Console(file=written, width=200), total=5, done=1, measure="AP") as table:
        table.print_line()
        assert written.getvalue() == ""  # nothing is new
        table.end("one", 0.4)
        table.print_line()
        table.print_line()
    (line,) = written.getvalue().splitlines()
    assert line.startswith("2 of 5 runs, ")
    assert line.endswith(" left")


def test_durations_and_sparks_by_hand():
    assert spark([0.0, 1.0, math.nan]) == "▁█"
    assert spark([1.0]) == ""
    written = [duration(seconds) for seconds in (0, 45, 89.4, 90, 200, 7500)]
    assert written == ["0 s", "45 s", "89 s", "2 min", "3 min", "2 h 5 min"]
