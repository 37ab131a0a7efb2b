from __future__ import annotations

import io
import math
from typing import Any

import pytest
from rich.console import Console

from cluster.telemetry.live_table import LiveTable, spark


def told(epoch: int, validation: float) -> dict[str, Any]:
    return {"epoch": epoch, "max_epochs": 9, "validation": validation}


@pytest.mark.parametrize("width", [70, 100])
def test_a_frame_fits_and_says_what_matters(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    table = LiveTable(console, total=5, done=1, measure="AP@100")
    for name in ("good", "bad", "diverged", "waiting"):
        table.start(name)
    for epoch, value in enumerate((0.1, 0.2, math.nan), 1):
        table.progress("diverged", told(epoch, value))
    table.end("good", 0.5)
    table.end("bad", 0.25)
    console.print(table.render())
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    lines = shown.splitlines()
    assert max(map(len, lines)) <= width
    assert "3/5 runs" in shown
    assert any("best" in line and "good" in line and "0.5000" in line for line in lines)
    assert any("worst" in line and "bad" in line for line in lines)
    assert "nan" not in next(line for line in lines if line.startswith("waiting"))


def test_a_run_that_failed_is_counted() -> None:
    table = LiveTable(Console(file=io.StringIO()), total=2, done=0, measure="AP")
    table.start("a")
    table.retried += 1
    table.start("a")
    table.fail("a")
    assert "1 failed" in table.outlook()
    assert "1 retried" in table.outlook()
    assert table.states == {"waiting": 1, "running": 0, "done": 0, "failed": 1, "stopped": 0}


def test_sparks() -> None:
    assert spark([0.0, 1.0, math.nan]) == "▁█"
    assert spark([1.0]) == ""
