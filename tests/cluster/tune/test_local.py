"""Runs in this process, held against what they must do without Ray."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cluster.output.storage import Storage, Unwritable
from cluster.tune.known_runs import KnownRuns
from cluster.tune.live_table import LiveTable
from cluster.tune.local import Report, run_locally
from cluster.tune.run_source import FINISHED
from ranking.errors import BadInput


def table(total: int) -> LiveTable:
    return LiveTable(Console(quiet=True), total, 0, "AP")


@pytest.mark.parametrize("at_once", [1, 3])
def test_each_run_ends_once_whatever_the_threads(at_once: int, tmp_path: Path) -> None:
    shown, tries = table(4), dict.fromkeys("abcd", 0)

    def body(run: dict[str, Any], report: Report) -> None:
        tries[run["name"]] += 1
        report({"epoch": 1, "max_epochs": 2, "validation": 0.5})
        if run["name"] == "b" and tries["b"] == 1:
            raise RuntimeError("the first time")
        if run["name"] == "c":
            raise BadInput("it is no good", "c")
        if run["name"] == "d":
            raise ValueError("every time")
        report({"best": 0.7})

    runs = KnownRuns([{"name": name} for name in "abcd"])
    errors = run_locally(body, runs, Storage(str(tmp_path)), 1, shown, at_once=at_once)
    assert tries == {"a": 1, "b": 2, "c": 1, "d": 2}
    assert set(errors) == {"c", "d"}
    assert "every time" in errors["d"]
    assert shown.states == {"waiting": 0, "running": 0, "done": 2, "failed": 2, "stopped": 0}
    assert shown.finished == {"a": 0.7, "b": 0.7}
    assert shown.retried == 2


@pytest.mark.parametrize("at_once", [1, 2])
def test_what_can_not_be_written_ends_everything(at_once: int, tmp_path: Path) -> None:
    begun = []

    def body(run: dict[str, Any], report: Report) -> None:
        begun.append(run["name"])
        raise Unwritable("the disk is full", "out", "choose another out=")

    with pytest.raises(Unwritable, match="full"):
        run_locally(
            body, KnownRuns([{"name": name} for name in "abcdefgh"]), Storage(str(tmp_path)), 1, table(8),
            at_once=at_once,
        )  # fmt: skip
    assert len(begun) <= 2 * at_once


class OneByOne(KnownRuns):
    """Hands out the next run when the last has ended."""

    def __init__(self, names: str) -> None:
        super().__init__([{"name": name} for name in names])
        self.open = False

    def suggest(self, trial_id: str) -> Any:
        given = None if self.open else super().suggest(trial_id)
        self.open = given not in (None, FINISHED) or self.open
        return given

    def on_trial_complete(self, trial_id: str) -> None:
        self.open = False


@pytest.mark.parametrize("at_once", [1, 2])
def test_a_source_that_waits_for_results_is_asked_again(at_once: int, tmp_path: Path) -> None:
    done = []
    run_locally(
        lambda run, report: done.append(run["name"]), OneByOne("abc"), Storage(str(tmp_path)), 0, table(3),
        at_once=at_once,
    )  # fmt: skip
    assert done == ["a", "b", "c"]


def test_an_interrupt_ends_runs_in_other_threads(tmp_path: Path) -> None:
    import threading

    going = threading.Event()

    def body(run: dict[str, Any], report: Report) -> None:
        if run["name"] == "a":
            going.wait(10)
            raise KeyboardInterrupt
        going.set()
        for step in range(10**9):
            report({"epoch": step, "max_epochs": 10**9, "validation": 0.0})

    with pytest.raises(KeyboardInterrupt):
        run_locally(body, KnownRuns([{"name": "a"}, {"name": "b"}]), Storage(str(tmp_path)), 0, table(2), at_once=2)
