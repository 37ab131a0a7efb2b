from __future__ import annotations

import io
import math
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from cluster.tune.live_table import LiveTable, span, spark


def trial(name: str, best: float = 0.0) -> Any:
    return SimpleNamespace(config={"run": {"name": name}}, last_result={"best": best})


def told(epoch: int, validation: float) -> dict[str, Any]:
    return {"epoch": epoch, "max_epochs": 9, "validation": validation}


@pytest.mark.parametrize("width", [70, 100])
def test_a_frame_fits_and_says_what_matters(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    table = LiveTable(console, total=5, done=1, measure="AP@100")
    for name in ("good", "bad", "diverged", "waiting"):
        table.on_trial_start(0, [], trial(name))
    for epoch, value in enumerate((0.1, 0.2, math.nan), 1):
        table.on_trial_result(0, [], trial("diverged"), told(epoch, value))
    table.on_trial_complete(0, [], trial("good", 0.5))
    table.on_trial_complete(0, [], trial("bad", 0.25))
    console.print(table.render())
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    lines = shown.splitlines()
    assert max(map(len, lines)) <= width
    assert "3/5 runs" in shown
    assert any("best" in line and "good" in line and "0.5000" in line for line in lines)
    assert any("worst" in line and "bad" in line for line in lines)
    assert "nan" not in next(line for line in lines if line.startswith("waiting"))


def test_a_run_tried_again_and_one_that_failed_are_counted() -> None:
    table = LiveTable(Console(file=io.StringIO()), total=2, done=0, measure="AP")
    table.on_trial_start(0, [], trial("a"))
    table.on_trial_start(0, [], trial("a"))
    table.on_trial_error(0, [], trial("a"))
    assert "1 failed" in table.outlook()
    assert "1 tried again" in table.outlook()


def test_spans_and_sparks() -> None:
    assert [span(45), span(200), span(7500)] == ["45 s", "3 min", "2 h 5 min"]
    assert spark([0.0, 1.0, math.nan]) == "▁█"
    assert spark([1.0]) == ""
