"""Runs that are tracked from several processes at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import ray

from cluster.output.event_log import EventLog
from cluster.output.storage import Storage
from cluster.telemetry.tracking import spread, tracking
from cluster.telemetry.tracking.mlflow import MLflow
from cluster.telemetry.tracking.spread import SpreadTracker
from cluster.telemetry.tracking.tensorboard import TensorBoard
from cluster.telemetry.tracking.tracker import Run, Status, Tracker
from cluster.telemetry.tracking.tracking import Tracking
from cluster.telemetry.tracking.wandb import WandB
from tests.cluster.telemetry.read_back import ReadBack, of_tensorboard, of_wandb

KINDS: list[tuple[Callable[[], Tracker], Callable[[Path], dict[str, list[ReadBack]]]]] = [
    (TensorBoard, of_tensorboard),
    (WandB, of_wandb),
]
RUNS = [Run(f"run-{number}", {"seed": str(number)}) for number in range(3)]


@pytest.fixture(autouse=True)
def _one_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread, "AT_ONCE", 1)
    monkeypatch.setattr(tracking, "AT_ONCE", 1)


def read(out: Path, of: Callable[[Path], dict[str, list[ReadBack]]]) -> dict[str, tuple[list[Any], str]]:
    found = {name: (run.told["loss"], run.status) for name, (run,) in of(out).items()}
    return {name: found[name] for name in sorted(found)}


@pytest.mark.parametrize(("tracker", "of"), KINDS)
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_what_other_processes_track_is_read_back(
    tracker: Callable[[], Tracker],
    of: Callable[[Path], dict[str, list[ReadBack]]],
    scheme: str,
    ray_session: None,
    tmp_path: Path,
) -> None:
    """Three runs at once, one here and two in actors; one begins again, and one is interrupted by Ray's end."""
    said: list[str] = []
    following = Tracking([tracker()], EventLog(Storage(f"{scheme}{tmp_path}")), said.append, {})
    for run in RUNS:
        following.begin(run)
    for step in (1, 2):
        for run in RUNS:
            following.log(run.name, step, {"loss": 1 / step})
    following.begin(RUNS[1])
    following.log(RUNS[1].name, 3, {"loss": 0.25})
    for run in RUNS[:2]:
        following.end(run.name, "done", {"best": 1.0})
    following.settle()
    assert not actors()
    following.close()
    assert said == []
    two = [(1, 1.0), (2, 0.5)]
    found = read(tmp_path, of)
    assert {name: told for name, (told, _) in found.items()} == {
        "run-0": two, "run-1": [*two, (3, 0.25)], "run-2": two,
    }  # fmt: skip
    assert [status for _, status in found.values()] == ["done", "done", found["run-2"][1]]
    assert found["run-2"][1] != "done"


def actors() -> list[Any]:
    from ray._private.state import state

    job = ray.JobID.from_hex(ray.get_runtime_context().get_job_id())
    return [each for each in state.actor_table(None, job, "ALIVE").values() if each["ActorClassName"] == "TrackerHost"]


def test_runs_of_an_actor_that_is_lost_begin_again_elsewhere(ray_session: None, tmp_path: Path) -> None:
    many = SpreadTracker(TensorBoard())
    many.open(Storage(str(tmp_path)))
    for run in RUNS[:2]:
        many.begin(run)
        many.log(run.name, 1, {"loss": 1.0})
    (host,) = many._hosts
    many.end(RUNS[1].name, "stopped", {})
    ray.kill(host.actor)
    many.begin(RUNS[2])
    many.log(RUNS[2].name, 1, {"loss": 1.0})
    many.end(RUNS[2].name, "done", {})
    many.end(RUNS[0].name, "done", {})
    many.close()
    one = [(1, 1.0)]
    assert read(tmp_path, of_tensorboard) == {
        "run-0": (one, "done"), "run-1": (one, "stopped"), "run-2": (one, "done"),
    }  # fmt: skip


class Failing(Tracker):
    """Fails wherever it is not the first."""

    spreads = True

    def open(self, storage: Storage) -> None: ...

    def begin(self, run: Run) -> None:
        if run.name != RUNS[0].name:
            raise ConnectionError("the server is gone")

    def log(self, name: str, step: int, numbers: Mapping[str, float]) -> None: ...

    def end(self, name: str, status: Status, numbers: Mapping[str, float]) -> None: ...


def test_a_tracker_that_fails_elsewhere_is_said_once(ray_session: None, tmp_path: Path) -> None:
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(__import__(__name__, fromlist=["Failing"]))
    said: list[str] = []
    following = Tracking([Failing()], EventLog(Storage(str(tmp_path))), said.append, {})
    for run in RUNS:
        following.begin(run)
    following.settle()
    following.close()
    assert len(said) == 1
    assert said[0].startswith("tracking by Failing has stopped: ")
    assert "the server is gone" in said[0]


def test_without_ray_all_are_tracked_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread, "connected", lambda: False)
    following = Tracking([TensorBoard()], EventLog(Storage(str(tmp_path))), lambda line: pytest.fail(line), {})
    for run in RUNS:
        following.begin(run)
        following.log(run.name, 1, {"loss": 1.0})
    for run in RUNS:
        following.end(run.name, "done", {})
    following.settle()
    following.close()
    assert len(read(tmp_path, of_tensorboard)) == 3


def test_a_store_in_a_file_has_one_writer() -> None:
    assert not MLflow().spreads
    assert not MLflow("sqlite:////somewhere/mlflow.db").spreads
    assert MLflow("http://tracking:5000").spreads
    assert TensorBoard.spreads
    assert WandB.spreads
