"""What trackers keep, read back from their own files, of parts and of the real commands."""

import importlib.util
import json
import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pyrite.cluster.output.event_log import FILE, EventLog
from pyrite.cluster.output.run_log import RunLog
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.telemetry.tracking.mlflow import STORE, MLflow
from pyrite.cluster.telemetry.tracking.tensorboard import TensorBoard
from pyrite.cluster.telemetry.tracking.tracker import Status, TrackedRun, Tracker
from pyrite.cluster.telemetry.tracking.tracking import Tracking, trackers
from pyrite.cluster.telemetry.tracking.wandb import WandB
from pyrite.ranking.errors import BadInput
from tests.cluster.command_line import command
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


def tracking(place: object, said: list[str], *built: Tracker) -> Tracking:
    return Tracking(built, EventLog(Storage(str(place))), said.append)


@pytest.mark.by_day(1)
@pytest.mark.parametrize(("tracker", "read", "measure", "done"), KINDS)
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_run_that_is_interrupted_or_lost_is_there_once(tracker, read, measure, done, scheme, out):
    """Lost after three epochs it repeats the third; interrupted after four another command goes on behind the third.

    In a folder, and behind a URI, where files are handed over.
    """
    place, said = f"{scheme}{out}", list[str]()
    first = tracking(place, said, tracker())
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
    second = tracking(place, said, tracker())
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

    def __init__(self, log: Callable[[], object] = lambda: None) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._log = log

    def open(self, storage: Storage) -> None:
        self.calls.append(("open",))

    def begin(self, run: TrackedRun) -> None:
        self.calls.append(("begin", run.name))

    def log(self, name: str, step: int, numbers: Mapping[str, float]) -> None:
        self._log()
        self.calls.append(("log", name, step))

    def end(self, name: str, status: Status, numbers: Mapping[str, float]) -> None:
        self.calls.append(("end", name, status))


def test_a_tracker_that_fails_stops_no_other_and_a_run_of_two_at_a_time_ends_once(tmp_path):
    def fail() -> None:
        raise ConnectionError("the server\nis gone")

    said: list[str] = []
    failing, sound = Recorder(fail), Recorder()
    following = tracking(tmp_path, said, failing, sound)
    for name in ("a", "b"):
        following.begin(TrackedRun(name))
        following.log(name, 1, {})
        following.end(name, "done", {})
    following.close()
    assert said == ["tracking by Recorder has stopped: is gone"]
    assert failing.calls == [("open",), ("begin", "a")]
    each = [[("begin", name), ("log", name, 1), ("end", name, "done")] for name in ("a", "b")]
    assert sound.calls == [("open",), *each[0], *each[1]]
    assert [event["event"] for event in EventLog.read(following.events.storage)] == ["tracking stopped"]
    recorder = Recorder()
    following = tracking(tmp_path, said, recorder)
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
    slow = Recorder(answers.wait)
    following = tracking(tmp_path, [], slow)
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
    monkeypatch.setattr("pyrite.cluster.telemetry.tracking.tracking.TRACKER_CLOSE_TIMEOUT_S", 0.1)
    said: list[str] = []
    never = threading.Event()
    following = tracking(tmp_path, said, Recorder(never.wait))
    following.begin(TrackedRun("a"))
    following.log("a", 1, {})
    following.close()
    assert said == ["tracking by Recorder has stopped: it does not answer"]
    [event] = EventLog.read(Storage(str(tmp_path)))
    assert (event["event"], event["tracker"]) == ("tracking stopped", "Recorder")
    never.set()


def test_tensorboard_is_among_them_in_any_case():
    node = {
        "_target_": "pyrite.cluster.telemetry.tracking.wandb.WandB",
        "project": "owls",
        "mode": None,
        "entity": None,
    }
    assert [type(each) for each in trackers({}, "user")] == [TensorBoard]
    assert [type(each) for each in trackers({"wandb": node}, "user")] == [TensorBoard, WandB]
    with pytest.raises(BadInput, match="mode"):
        trackers({"wandb": node | {"mode": "loud"}}, "user")


def test_many_runs_at_once_keep_few_files_open(tmp_path, monkeypatch):
    monkeypatch.setattr("pyrite.cluster.telemetry.tracking.tensorboard.MAX_OPEN", 2)
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
    following = tracking(tmp_path / "out", [], MLflow())
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
    chosen = WandB("voles", "offline")
    chosen.open(Storage(str(tmp_path)))
    chosen.begin(RUN)
    found = [(options["project"], options["mode"], options["resume"]) for options in given]
    assert found == [("pyrite", "offline", None), ("owls", "online", "allow"), ("voles", "offline", None)]


METHOD = ["ranker=feed_forward", "policy=fixed", "function=bm25", "selector=uniform"]


@pytest.fixture(scope="module")
def study(base, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("tracked") / "study"
    assert command("study", *base, *METHOD, "seeds=2", "track=wandb", "local=true", f"out={out}") == 0
    return out


def check_trackers(study: Path) -> None:
    """Compare what trackers have of a study with its tables."""
    trials = pl.read_parquet(study / "trials.parquet")
    for read, measure in ((of_tensorboard, "bm25/AP_10"), (of_wandb, "bm25/AP@10")):
        found = read(study)
        assert sorted(found) == sorted(trials["run"])
        for row in trials.iter_rows(named=True):
            (run,) = found[row["run"]]
            assert run.final[measure] == pytest.approx(row["bm25:AP@10"])
            assert [value for _, value in run.told["loss"]] == pytest.approx(row["curve_loss"])
            assert [value for _, value in run.told["validation"]] == pytest.approx(row["curve_validation"])
            assert run.parameters["seed"] == str(row["seed"])
            assert run.parameters["selector"] == "uniform"
    assert f"seed={row['seed']}" in of_wandb(study)[row["run"]][0].parameters["overrides"]


def test_the_log_tells_what_happened(study):
    events = EventLog.read(Storage(str(study)))
    assert events[0]["event"] == "began"
    assert (events[0]["runs"], events[0]["done"]) == (2, 0)
    assert [event["event"] for event in events if "run" not in event] == ["began", "finished"]
    for run in pl.read_parquet(study / "trials.parquet").iter_rows(named=True):
        own = [event for event in events if event.get("run") == run["run"]]
        assert [event["event"] for event in own] == ["run started", *["run reached"] * run["epochs"], "run ended"]
        assert [event["numbers"]["loss"] for event in own[1:-1]] == run["curve_loss"]
        assert own[-1]["best"] == max(run["curve_validation"])


def test_a_study_that_goes_on_is_tracked_once(study):
    """As if its process had been killed when a run had told two epochs."""
    log, (name, *_) = study / FILE, [event["run"] for event in EventLog.read(Storage(str(study))) if "run" in event]
    kept = [json.loads(line) for line in log.read_text().splitlines()]
    kept = [event for event in kept if event.get("run") != name or event.get("step", 0) in (1, 2)]
    log.write_text("".join(json.dumps(event) + "\n" for event in kept))
    (study / "runs" / f"{name}.safetensors").unlink()
    before = pl.read_csv(study / "summary.csv")  # the run is trained again; what it costs is in costs.csv
    assert command("study", "--resume", str(study), "track=wandb") == 0
    assert pl.read_csv(study / "summary.csv").equals(before)
    check_trackers(study)
    (went_on,) = (event for event in EventLog.read(Storage(str(study))) if event["event"] == "run went on")
    assert (went_on["run"], went_on["after"], went_on["repeats"]) == (name, 0, 2)


def test_a_single_run_is_tracked_as_in_a_study(study, base, tmp_path):
    out = tmp_path / "one"
    assert command("train", *base, *METHOD, "seed=1", "track=wandb", f"out={out}") == 0
    assert command("train", *base, *METHOD, "seed=1", "track=wandb", f"out={out}") == 0
    row = pl.read_parquet(out / "trials.parquet").row(0, named=True)
    for read in (of_tensorboard, of_wandb):
        (run,), (in_study,) = read(out)[row["run"]], read(study)[row["run"]]
        assert (run.told, run.final, run.status) == (in_study.told, in_study.final, "done")
        assert run.parameters | {"overrides": ""} == in_study.parameters | {"overrides": ""}
    assert not (out / "mlflow").exists()
    assert command("train", *base, *METHOD, "track=wandb") == 2


@pytest.mark.nightly
def test_a_learning_is_tracked_by_episodes(base, ray_session, tmp_path):
    out = tmp_path / "agent"
    options = ["copies=2", "episodes=3", "random_baseline=2", "workers=0", "dashboard=false", "track=mlflow"]
    options += ["validation_sample.size=4", "validation_sample.every=2"]
    assert command("learn", *base, *options, f"out={out}") == 0
    learned = pl.read_parquet(out / "episodes.parquet").with_row_index("step", 1).filter(agent="learned")
    for read in (of_tensorboard, of_mlflow):
        (run,) = read(out)["agent"]
        steps, returns = zip(*run.told["learned/return"], strict=True)
        assert list(steps) == learned["step"].to_list()
        assert list(returns) == pytest.approx(learned["return"].to_list())
        assert [value for _, value in run.told["learned/share/bm25"]] == pytest.approx(learned["share:bm25"].to_list())
        assert len(run.told["random/validation"]) == 2
        assert run.final["recent/mean/return"] == pytest.approx(learned["return"].tail(32).mean())
    events = [event["event"] for event in EventLog.read(Storage(str(out)))]
    assert events[0] == "began"
    assert events[-2:] == ["agent learned", "finished"]
    (out / "figures" / "policy.png").unlink()
    assert command("learn", "--resume", str(out)) == 0  # it has learned: what there is to see is made again
    assert {file.name for file in (out / "figures").iterdir()} == {"learning.png", "policy.png"}
    assert command("train", *base, "policy=learned", f"policy.checkpoint={out}", "policy.greedy=true") == 0


@pytest.mark.nightly
def test_a_pool_is_tracked_by_seeds(of_small_pool, tmp_path):
    out = tmp_path / "pool"
    options = ["method=rank,mtf", "seeds=2", "ranking_quality=false", "budgets=[3]", "track=mlflow", "local=true"]
    assert command("pool", *of_small_pool, *options, f"out={out}") == 0
    effort = pl.read_parquet(out / "effort.parquet")
    found = pl.read_parquet(out / "budgets.parquet").group_by("method", "seed", "budget").agg(pl.col("found").sum())
    for read in (of_tensorboard, of_mlflow):
        runs = {run.parameters["method"]: run for (run,) in read(out).values()}
        assert sorted(runs) == ["mtf", "rank"]
        for method, run in runs.items():
            areas = effort.filter(method=method)["area"].to_list()
            assert [value for _, value in run.told["area"][:2]] == pytest.approx(areas)
            assert run.final["mean/area"] == pytest.approx(sum(areas) / 2)
            own = found.filter(method=method).sort("seed")
            shares = own.filter(budget=3)["found"] / own.filter(budget=0)["found"]
            assert [value for _, value in run.told["found/3"][:2]] == pytest.approx(shares.to_list())


def test_a_package_that_is_missing_stops_a_command_before_it_starts(base, tmp_path, monkeypatch, capsys):
    real = importlib.util.find_spec  # it also finds modules whose docstrings are kept
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name in {"mlflow", "wandb"} else real(name))
    nowhere = ["runs=nowhere", "qrels=nowhere"]
    for verb, options, tracker in (("study", base, "wandb"), ("pool", nowhere, "wandb"), ("pool", nowhere, "mlflow")):
        assert command(verb, *options, f"track={tracker}", f"out={tmp_path / verb}") == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f"{tracker} is not installed" in line
        assert "pip install 'pyrite-ir[track]'" in line
        assert not list((tmp_path / verb).glob("*"))
