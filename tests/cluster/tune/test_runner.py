"""Trials that lose their process, and those that fail by themselves; how many go at once."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import ray
from ray import cloudpickle, tune
from ray.air.execution._internal import RayActorManager
from ray.tune.execution import tune_controller
from ray.tune.search import ConcurrencyLimiter, Searcher
from rich.console import Console

from cluster.config.compose import compose
from cluster.executors import lost_process
from cluster.executors.drain import NOTICE, NodeDraining
from cluster.output.event_log import EventLog
from cluster.output.storage import Storage, Unwritable
from cluster.telemetry.tracking.tracking import tracked, trackers
from cluster.tune import failures
from cluster.tune.capacity import CapacityLimiter
from cluster.tune.known_runs import KnownRuns
from cluster.tune.live_table import LiveTable
from cluster.tune.runner import THREAD_END, TuneSearch, run_trials, trial_body
from ranking.errors import BadInput

cloudpickle.register_pickle_by_value(sys.modules[__name__])


FULL = Unwritable("the disk is full", "out/x", "make room")


def trial(config: dict[str, Any]) -> None:
    """Is told to leave, killed, or raises, as often as its run says; the tries are files of a folder."""
    run = config["run"]
    tried = len(list(Path(run["folder"]).glob(f"{run['name']}-*")))
    (Path(run["folder"]) / f"{run['name']}-{tried}").touch()
    if tried < run.get("told", 0):
        raise NodeDraining
    if tried < run["killed"]:
        os.kill(os.getpid(), signal.SIGKILL)
    if tried < run["killed"] + run["raises"]:
        raise {"": ValueError("by itself"), "input": BadInput("is bad"), "full": FULL}[run.get("kind", "")]
    tune.report({"best": 1.0})


def errors_of(
    folder: Path, runs: list[dict[str, Any]], retries: int, concurrent: int | None = None
) -> tuple[dict[str, str], LiveTable]:
    runs = [run | {"folder": str(folder)} for run in runs]
    body = trial_body("Trial", trial, {"cpu": 0.1}, retries)
    options = {"concurrent": concurrent, "retries": retries}
    storage, console = Storage(str(folder / "out")), Console(quiet=True)
    with LiveTable(console, len(runs), 0, "AP@10") as table, tracked([], storage, console, "study", False) as tracking:
        return run_trials(body, KnownRuns(runs), storage, options, table, tracking), table


def test_only_errors_that_a_run_raises_count_against_its_retries_and_bad_input_is_not_tried_again(
    ray_session: None, tmp_path: Path
) -> None:
    runs = [
        {"name": "failing", "killed": 0, "raises": 2},
        {"name": "both", "killed": 2, "raises": 1},
        {"name": "bad", "killed": 1, "raises": 9, "kind": "input"},
    ]
    errors, table = errors_of(tmp_path, runs, 1)
    assert errors == {"failing": "ValueError: by itself", "bad": "is bad"}
    assert {run["name"]: len(list(tmp_path.glob(f"{run['name']}-*"))) for run in runs} == {
        "failing": 2, "both": 4, "bad": 2,
    }  # fmt: skip
    assert (table.done, table.failed, table.retried) == (3, 2, 5)


def test_a_run_whose_machine_is_to_be_taken_away_moves_as_often_as_that_happens(
    ray_session: None, tmp_path: Path
) -> None:
    told = lost_process.MAX_FAILURES_WITHOUT_PROGRESS + 2
    errors, table = errors_of(tmp_path, [{"name": "moving", "told": told, "killed": 0, "raises": 0}], 0)
    assert errors == {}
    assert (table.done, table.failed, table.retried) == (1, 0, 0)
    events = EventLog.read(Storage(str(tmp_path / "out")))
    moved = [each for each in events if each["event"] == "run moved"]
    assert len(moved) == told
    assert NOTICE in moved[0]["reason"]
    assert "run lost" not in {each["event"] for each in events}


def test_what_cannot_be_written_ends_all_trials(ray_session: None, tmp_path: Path) -> None:
    runs = [{"name": f"run{number}", "killed": 0, "raises": 9, "kind": "full"} for number in range(5)]
    with pytest.raises(Unwritable, match=r"out/x: the disk is full; make room"):
        errors_of(tmp_path, runs, 3, concurrent=1)
    assert [file.name for file in tmp_path.glob("run*")] == ["run0-0"]


def killed_for_memory(config: dict[str, Any]) -> None:
    """Is killed as by the memory monitor as long as it runs on fewer than so many cores."""
    run, taken = config["run"], ray.get_runtime_context().get_assigned_resources()["CPU"]
    assert os.environ["TUNE_FUNCTION_THREAD_TIMEOUT_S"] == THREAD_END  # else the next trial may be dropped
    tune.report({"epoch": 1, "max_epochs": 2, "validation": 0.0, "best": 0.0})
    with open(f"{run['folder']}/{run['name']}", "a") as file:
        file.write(f"{taken:g} ")
    if taken < run["wants"]:
        raise ray.exceptions.OutOfMemoryError("Task was killed due to the node running low on memory.")


def test_a_trial_killed_for_memory_takes_more_of_a_machine_and_leaves_the_others_alone(
    ray_session: None, tmp_path: Path
) -> None:
    cores = int(ray.cluster_resources()["CPU"])
    wants = {"light": 0, "heavy": 1, "fatal": cores + 1}
    runs = [{"name": name, "wants": wanted, "folder": str(tmp_path)} for name, wanted in wants.items()]
    storage, console = Storage(str(tmp_path / "out")), Console(quiet=True)
    body = trial_body("Trial", killed_for_memory, {"cpu": 0.5}, 0)
    with (
        tracked(trackers({}), storage, console, "study", False) as tracking,
        LiveTable(console, len(runs), 0, "AP") as table,
    ):
        errors = run_trials(body, KnownRuns(runs), storage, {"concurrent": None, "retries": 0}, table, tracking)
    assert list(errors) == ["fatal"]
    assert "killed by Ray's memory monitor although it had a machine for itself; give it" in errors["fatal"]
    assert (tmp_path / "light").read_text() == "0.5 "
    assert (tmp_path / "heavy").read_text() == "0.5 1 "
    assert (tmp_path / "fatal").read_text().split()[-1] == f"{cores}"
    lost = [event for event in EventLog.read(storage) if event["event"] == "run lost" and event["run"] == "heavy"]
    assert [event["reason"] for event in lost] == ["killed by Ray's memory monitor"]


def test_what_is_reserved_doubles_up_to_the_largest_machine_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    machines = [{"CPU": 4, "GPU": 2, "memory": 32e9}, {"CPU": 16, "memory": 64e9}, {"memory": 99e9}]
    monkeypatch.setattr(ray, "nodes", lambda: [{"Alive": True, "Resources": each} for each in machines])

    def larger(**own: float) -> dict[str, float] | None:
        found = failures.more_of_a_machine(tune.PlacementGroupFactory([own, {"CPU": 1}], strategy="SPREAD"))
        assert found is None or (found.bundles[1] == {"CPU": 1} and found.strategy == "SPREAD")
        return found and found.bundles[0]

    assert larger(CPU=3) == {"CPU": 6}
    assert larger(CPU=12) == {"CPU": 16}
    assert larger(CPU=16) is None
    assert larger(CPU=1, GPU=0.75) == {"CPU": 2, "GPU": 1}
    assert larger(CPU=1, memory=20e9) == {"CPU": 1, "memory": 40e9}
    assert larger(CPU=1, GPU=1, memory=32e9) is None


def test_a_kill_for_memory_is_a_loss_to_tune_whatever_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Exception] = []
    monkeypatch.setattr(RayActorManager, "_actor_task_failed", lambda self, task, error: heard.append(error))
    manager = object.__new__(failures.ActorManager)
    for error in (ray.exceptions.OutOfMemoryError("full"), ray.exceptions.RayActorError(), ValueError("x")):
        manager._actor_task_failed(None, error)
    assert [type(error).__name__ for error in heard] == ["RayActorError", "RayActorError", "ValueError"]
    assert [lost_process.killed_for_memory(error) for error in heard] == [True, False, False]
    assert tune_controller.RayActorManager is failures.ActorManager


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
    limiter = ConcurrencyLimiter(TuneSearch(KnownRuns([{"name": name} for name in "abcdef"])), 2)
    watch = CapacityLimiter(limiter, lambda there: next(rooms) if there["CPU"] else 0, every=0)
    watch.on_step_begin(0, [])
    assert [limiter.suggest(name) is not None for name in "1234"] == [True, True, True, False]
    watch.on_step_begin(1, [])
    limiter.on_trial_complete("1")
    assert limiter.suggest("5") is None
    watch.on_step_begin(2, [])
    assert [limiter.suggest(name) is not None for name in "678"] == [True, True, True]
