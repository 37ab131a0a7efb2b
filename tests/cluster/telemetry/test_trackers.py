"""What trackers keep, read back from their own files."""

import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from cluster.output.event_log import EventLog
from cluster.output.run_log import RunLog, unfinished
from cluster.output.storage import Storage
from cluster.telemetry.tracking.mlflow import STORE, MLflow
from cluster.telemetry.tracking.tensorboard import TensorBoard
from cluster.telemetry.tracking.tracker import Status, TrackedRun, Tracker
from cluster.telemetry.tracking.tracking import Tracking, as_overrides, trackers
from cluster.telemetry.tracking.wandb import WandB
from ranking.errors import BadInput
from tests.cluster.telemetry.read_back import ReadBack, of_mlflow, of_tensorboard, of_wandb

RUN = TrackedRun("one-s3", {"selector": "top", "seed": "3"}, "selector=top seed=3")
FINAL = {"bm25/AP@10": 0.25, "best": 0.5}
Read = Callable[[Path], dict[str, list[ReadBack]]]
KINDS: list[tuple[Callable[[], Tracker], Read, str, str]] = [
    (TensorBoard, of_tensorboard, "bm25/AP_10", "done"),
    (MLflow, of_mlflow, "bm25/AP_10", "FINISHED"),
    (WandB, of_wandb, "bm25/AP@10", "done"),
]


def numbers(step: int) -> dict[str, float]:
    return {"loss": 1 / step, "validation": step / 8}


@pytest.fixture(scope="module")
def empty_store(tmp_path_factory) -> Path:
    """A store of MLflow with its tables and nothing in them, which take seconds to make."""
    out = tmp_path_factory.mktemp("empty")
    tracker = MLflow()
    tracker.open(Storage(str(out)))
    tracker._client.search_experiments()
    return out / "mlflow" / STORE


@pytest.fixture
def out(tmp_path, empty_store) -> Path:
    (tmp_path / "out" / "mlflow").mkdir(parents=True)
    shutil.copy(empty_store, tmp_path / "out" / "mlflow")
    return tmp_path / "out"


def tracking(tracker: Tracker, place: str, said: list[str] | None = None) -> Tracking:
    storage = Storage(place)
    said = [] if said is None else said
    return Tracking([tracker], EventLog(storage), said.append, unfinished(EventLog.read(storage)))


@pytest.mark.by_day(2)
@pytest.mark.parametrize(("tracker", "read", "measure", "done"), KINDS)
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_run_that_is_interrupted_or_lost_is_there_once(tracker, read, measure, done, scheme, out):
    """Lost after three epochs it repeats the third; interrupted after four another command goes on behind the third.

    In a folder, and behind a URI, where files are handed over.
    """
    place, said = f"{scheme}{out}", list[str]()
    first = tracking(tracker(), place, said)
    log = RunLog(first.events)
    for attempt in ((1, 2, 3), (3, 4)):
        first.begin(RUN)
        for step in attempt:
            log.reached(RUN.name, step, numbers(step))
            first.log(RUN.name, step, numbers(step))
    first.close()
    first.events.flush()
    (interrupted,) = read(out)[RUN.name]
    assert [step for step, _ in interrupted.told["loss"]] == [1, 2, 3, 4]
    assert interrupted.status != done
    second = tracking(tracker(), place, said)
    second.begin(RUN)
    for step in (4, 5):
        second.log(RUN.name, step, numbers(step))
    second.end(RUN.name, "done", FINAL | {"diverged": float("nan")})
    second.close()
    assert not said
    (run,) = read(out)[RUN.name]
    assert run.told["validation"] == [(step, step / 8) for step in (1, 2, 3, 4, 5)]
    assert run.told["loss"] == [(step, pytest.approx(1 / step)) for step in (1, 2, 3, 4, 5)]
    assert (run.final[measure], run.final["best"], run.status) == (0.25, 0.5, done)
    assert "diverged" not in run.final
    assert run.parameters.items() >= RUN.parameters.items()


class Recorder(Tracker):
    """Remembers, waits or fails."""

    def __init__(self, wait: threading.Event | None = None, fail: bool = False) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._wait, self._fail = wait, fail

    def open(self, storage: Storage) -> None:
        self.calls.append(("open",))

    def begin(self, run: TrackedRun) -> None:
        self.calls.append(("begin", run.name))

    def log(self, name: str, step: int, numbers: Mapping[str, float]) -> None:
        if self._wait is not None:
            self._wait.wait()
        if self._fail:
            raise ConnectionError("the server\nis gone")
        self.calls.append(("log", name, step))

    def end(self, name: str, status: Status, numbers: Mapping[str, float]) -> None:
        self.calls.append(("end", name, status))


def test_a_tracker_that_fails_stops_no_other_and_a_run_of_two_at_a_time_ends_once(tmp_path):
    said: list[str] = []
    failing, sound = Recorder(fail=True), Recorder()
    events = EventLog(Storage(str(tmp_path)))
    following = Tracking([failing, sound], events, said.append, {})
    for name in ("a", "b"):
        following.begin(TrackedRun(name))
        following.log(name, 1, {})
        following.end(name, "done", {})
    following.close()
    assert said == ["tracking by Recorder has stopped: is gone"]
    assert failing.calls == [("open",), ("begin", "a")]
    each = [[("begin", name), ("log", name, 1), ("end", name, "done")] for name in ("a", "b")]
    assert sound.calls == [("open",), *each[0], *each[1]]
    assert [event["event"] for event in EventLog.read(events.storage)] == ["tracking stopped"]
    recorder = Recorder()
    following = Tracking([recorder], EventLog(Storage(str(tmp_path))), lambda line: None, {})
    following.begin(TrackedRun("a"))
    following.log("a", 1, {})
    following.begin(TrackedRun("a"))
    following.end("a", "done", {})
    following.log("a", 1, {})
    following.end("a", "done", {})
    following.close()
    assert recorder.calls[-2:] == [("begin", "a"), ("end", "a", "done")]


@pytest.mark.timeout(60)
def test_nobody_waits_for_a_slow_tracker(tmp_path):
    answers = threading.Event()
    slow = Recorder(wait=answers)
    following = Tracking([slow], EventLog(Storage(str(tmp_path))), lambda line: None, {})
    following.begin(TrackedRun("a"))
    for step in range(1, 100):
        following.log("a", step, {})
    assert not [call for call in slow.calls if call[0] == "log"]
    answers.set()
    following.close()
    assert slow.calls[-1] == ("end", "a", "interrupted")
    assert [call[2] for call in slow.calls if call[0] == "log"] == list(range(1, 100))


@pytest.mark.timeout(60)
def test_one_that_never_answers_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr("cluster.telemetry.tracking.tracking.CLOSE_TIMEOUT_S", 0.1)
    said: list[str] = []
    never = threading.Event()
    following = Tracking([Recorder(wait=never)], EventLog(Storage(str(tmp_path))), said.append, {})
    following.begin(TrackedRun("a"))
    following.log("a", 1, {})
    following.close()
    assert said == ["tracking by Recorder has stopped: it does not answer"]
    [event] = EventLog.read(Storage(str(tmp_path)))
    assert (event["event"], event["tracker"]) == ("tracking stopped", "Recorder")
    never.set()


def test_tensorboard_is_among_them_in_any_case():
    node = {"_target_": "cluster.telemetry.tracking.wandb.WandB", "project": "owls", "mode": None, "entity": None}
    assert [type(each) for each in trackers({})] == [TensorBoard]
    assert [type(each) for each in trackers({"wandb": node})] == [TensorBoard, WandB]
    assert as_overrides({"tensorboard": {}, "wandb": node}) == ["track=[tensorboard,wandb]", "track.wandb.project=owls"]
    assert as_overrides({"tensorboard": {}}) == []
    with pytest.raises(BadInput, match="mode"):
        trackers({"wandb": node | {"mode": "loud"}})


def test_many_runs_at_once_keep_few_files_open(tmp_path, monkeypatch):
    monkeypatch.setattr("cluster.telemetry.tracking.tensorboard.MAX_OPEN", 2)
    tracker = TensorBoard()
    tracker.open(Storage(str(tmp_path)))
    names = [f"run-{number}" for number in range(4)]
    for name in names:
        tracker.begin(TrackedRun(name, {"seed": "1"}))
    for step in (1, 2):
        for name in names:
            tracker.log(name, step, {"loss": 1 / step})
            assert len(tracker._writers) <= 2
    for name in names:
        tracker.end(name, "done", {"best": 1.0})
    tracker.close()
    for runs in of_tensorboard(tmp_path).values():  # a file each time that it was opened
        assert [pair for run in runs for pair in run.told.get("loss", [])] == [(1, 1.0), (2, 0.5)]
        assert [run.status for run in runs if run.status] == ["done"]
        assert [run.parameters for run in runs if run.parameters] == [{"seed": "1"}]
    assert sorted(of_tensorboard(tmp_path)) == names


def test_variables_of_mlflow_and_wandb_count(tmp_path, empty_store, monkeypatch):
    (tmp_path / "shared" / "mlflow").mkdir(parents=True)
    shutil.copy(empty_store, tmp_path / "shared" / "mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'shared' / 'mlflow' / STORE}")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "shared")
    following = tracking(MLflow(), str(tmp_path / "out"))
    following.begin(RUN)
    following.end(RUN.name, "done", FINAL)
    following.close()
    (run,) = of_mlflow(tmp_path / "shared")[RUN.name]
    assert run.final["best"] == 0.5
    assert not (tmp_path / "out" / "mlflow").exists()
    given: list[dict[str, Any]] = []
    monkeypatch.setattr("wandb.init", lambda **options: given.append(options))
    tracker = WandB()
    tracker.open(Storage(str(tmp_path)))
    tracker.begin(RUN)
    monkeypatch.setenv("WANDB_PROJECT", "owls")
    monkeypatch.setenv("WANDB_MODE", "online")
    tracker.begin(RUN)
    for options, project, mode, resume in zip(
        given, ("pyrite", "owls"), ("offline", "online"), (None, "allow"), strict=True
    ):
        assert (options["project"], options["mode"], options["resume"]) == (project, mode, resume)
    chosen = WandB("voles", "offline")
    chosen.open(Storage(str(tmp_path)))
    chosen.begin(RUN)
    assert (given[-1]["project"], given[-1]["mode"]) == ("voles", "offline")
