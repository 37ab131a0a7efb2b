"""Trials that lose their process, and those that fail by themselves; how many go at once."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from ray import cloudpickle, tune
from ray.tune.search import ConcurrencyLimiter, Searcher
from rich.console import Console

from cluster.config.compose import compose
from cluster.output.storage import Storage
from cluster.tune import failures
from cluster.tune.capacity import CapacityLimiter
from cluster.tune.known_runs import KnownRuns
from cluster.tune.live_table import LiveTable
from cluster.tune.runner import run_trials

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def trial(config: dict[str, Any]) -> None:
    """Is killed, or raises, as often as its run says; the tries are files of a folder."""
    run = config["run"]
    tried = len(list(Path(run["folder"]).glob(f"{run['name']}-*")))
    (Path(run["folder"]) / f"{run['name']}-{tried}").touch()
    if tried < run["killed"]:
        os.kill(os.getpid(), signal.SIGKILL)
    if tried < run["killed"] + run["raises"]:
        raise ValueError("by itself")
    tune.report({"best": 1.0})


def errors_of(folder: Path, runs: list[dict[str, Any]], retries: int) -> tuple[dict[str, str], LiveTable]:
    runs = [run | {"folder": str(folder)} for run in runs]
    body = tune.with_resources(trial, {"cpu": 0.1})
    options = {"concurrent": None, "retries": retries}
    with LiveTable(Console(quiet=True), len(runs), 0, "AP@10") as table:
        return run_trials(body, KnownRuns(runs), Storage(str(folder / "out")), options, table), table


def test_only_errors_that_a_run_raises_count_against_its_retries(ray_session: None, tmp_path: Path) -> None:
    runs = [
        {"name": "lost", "killed": 2, "raises": 0},
        {"name": "failing", "killed": 0, "raises": 2},
        {"name": "both", "killed": 2, "raises": 1},
    ]
    errors, table = errors_of(tmp_path, runs, 1)
    assert errors == {"failing": "ValueError: by itself"}
    assert len(list(tmp_path.glob("failing-*"))) == 2
    assert len(list(tmp_path.glob("both-*"))) == 4
    assert (table.done, table.failed) == (3, 1)


def test_a_run_that_is_lost_again_and_again_is_given_up(
    ray_session: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "MAX_FAILURES_WITHOUT_PROGRESS", 1)
    errors, _ = errors_of(tmp_path, [{"name": "fatal", "killed": 99, "raises": 0}], 0)
    assert list(errors) == ["fatal"]
    assert len(list(tmp_path.glob("fatal-*"))) == 2


def test_known_runs_are_proposed_once_and_in_order() -> None:
    search = KnownRuns([{"name": "a"}, {"name": "b"}])
    assert [search.suggest("1"), search.suggest("2")] == [{"run": {"name": "a"}}, {"run": {"name": "b"}}]
    assert search.suggest("3") == Searcher.FINISHED


@pytest.mark.parametrize(
    "overrides", [[], ["function=[bm25,random]", "policy=schedule"], ["ranker=dssm", "objective=sir_v4"]]
)
def test_a_configuration_is_the_same_once_it_was_text(overrides: list[str]) -> None:
    config = compose(overrides)
    assert json.loads(json.dumps(config)) == config


def test_as_many_go_at_once_as_the_cluster_of_now_has_room_for(ray_session: None) -> None:
    rooms = iter([3, 1, None])
    limiter = ConcurrencyLimiter(KnownRuns([{"name": name} for name in "abcdef"]), 2)
    watch = CapacityLimiter(limiter, lambda there: next(rooms) if there["CPU"] else 0, every=0)
    watch.on_step_begin(0, [])
    assert [limiter.suggest(name) is not None for name in "1234"] == [True, True, True, False]
    watch.on_step_begin(1, [])
    limiter.on_trial_complete("1")
    assert limiter.suggest("5") is None
    watch.on_step_begin(2, [])
    assert [limiter.suggest(name) is not None for name in "678"] == [True, True, True]
