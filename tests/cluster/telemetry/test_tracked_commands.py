"""The real commands, small, with every tracker."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.console import Console

from cluster.executors.task import Context, Retry, Task
from cluster.executors.tune import TuneExecutor
from cluster.output.event_log import FILE, EventLog
from cluster.output.storage import Storage
from cluster.statistics.summary import COSTS
from cluster.telemetry.live_table import LiveTable
from cluster.telemetry.run_watch import RunWatch
from cluster.telemetry.tracking.tracking import tracked, trackers
from tests.cluster.command_line import command
from tests.cluster.telemetry.read_back import of_mlflow, of_tensorboard, of_wandb

METHOD = ["ranker=feed_forward", "policy=fixed", "function=bm25", "selector=uniform"]


@pytest.fixture(scope="module")
def study(base: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tracked") / "study"
    assert command("study", *base, *METHOD, "seeds=2", "track=[mlflow,wandb]", "local=true", f"out={out}") == 0
    return out


@pytest.mark.nightly
def test_trackers_have_what_the_tables_have(study: Path) -> None:
    trials = pl.read_parquet(study / "trials.parquet")
    for read, measure in ((of_tensorboard, "bm25/AP_10"), (of_mlflow, "bm25/AP_10"), (of_wandb, "bm25/AP@10")):
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


def test_the_log_tells_what_happened(study: Path) -> None:
    events = EventLog.read(Storage(str(study)))
    assert events[0]["event"] == "began"
    assert (events[0]["runs"], events[0]["done"]) == (2, 0)
    assert [event["event"] for event in events if "run" not in event] == ["began", "finished"]
    for run in pl.read_parquet(study / "trials.parquet").iter_rows(named=True):
        own = [event for event in events if event.get("run") == run["run"]]
        assert [event["event"] for event in own] == ["run started", *["run reached"] * run["epochs"], "run ended"]
        assert [event["numbers"]["loss"] for event in own[1:-1]] == run["curve_loss"]
        assert own[-1]["best"] == max(run["curve_validation"])


def test_a_study_that_goes_on_is_tracked_once(study: Path) -> None:
    """As if its process had been killed when a run had told two epochs."""
    log, (name, *_) = study / FILE, [event["run"] for event in EventLog.read(Storage(str(study))) if "run" in event]
    kept = [json.loads(line) for line in log.read_text().splitlines()]
    kept = [event for event in kept if event.get("run") != name or event.get("step", 0) in (1, 2)]
    log.write_text("".join(json.dumps(event) + "\n" for event in kept))
    (study / "runs" / f"{name}.safetensors").unlink()
    before = pl.read_csv(study / "summary.csv").drop(COSTS)  # the run is trained again, which costs something else
    assert command("study", "--resume", str(study), "track=[wandb,mlflow]") == 0
    assert pl.read_csv(study / "summary.csv").drop(COSTS).equals(before)
    test_trackers_have_what_the_tables_have(study)
    (went_on,) = (event for event in EventLog.read(Storage(str(study))) if event["event"] == "run went on")
    assert (went_on["run"], went_on["after"], went_on["repeats"]) == (name, 0, 2)


def dies_once(flag: Path, context: Context) -> dict[str, Any]:
    """Be killed after two epochs, and continue behind the first."""
    first = 2 if flag.exists() else 1
    for epoch in range(first, 4):
        numbers = {"loss": 1 / epoch}
        context.report({"epoch": epoch, "max_epochs": 3, "validation": 0.5, "best": 0.5, "numbers": numbers})
        if epoch == 2 and first == 1:
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    return {"best": 0.5, "numbers": {"AP": 0.25}}


@pytest.mark.nightly
def test_a_trial_that_is_killed_is_told_of_and_tracked_once(ray_session: None, tmp_path: Path) -> None:
    storage, console = Storage(str(tmp_path / "out")), Console(quiet=True)
    tasks = [Task("one", dies_once, {"flag": tmp_path / "flag"})]
    with tracked(trackers({}), storage, console, "study", False) as tracking, LiveTable(console, 1, 0, "AP") as table:
        watch = RunWatch(table, "out", tracking)
        (done,) = TuneExecutor(storage, concurrent=1).run(tasks, watch=watch, retry=Retry(errors=1))
    assert done.error is None
    events = [event for event in EventLog.read(storage) if "run" in event]
    assert [(event["event"], event.get("step")) for event in events] == [
        ("run started", None), ("run reached", 1), ("run reached", 2), ("run lost", None), ("run started", None),
        ("run went on", None), ("run reached", 2), ("run reached", 3), ("run ended", None),
    ]  # fmt: skip
    lost, went_on = events[3], events[5]
    assert lost["reached"] == 2
    assert "died" in lost["reason"]
    assert (went_on["after"], went_on["repeats"]) == (1, 1)
    (run,) = of_tensorboard(tmp_path / "out")["one"]
    assert run.told["loss"] == [(step, pytest.approx(1 / step)) for step in (1, 2, 3)]
    assert run.final["AP"] == 0.25
    assert run.status == "done"


def test_a_single_run_is_tracked_as_in_a_study(study: Path, base: list[str], tmp_path: Path) -> None:
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
def test_a_learning_is_tracked_by_episodes(base: list[str], ray_session: None, tmp_path: Path) -> None:
    out = tmp_path / "agent"
    options = [
        "copies=2",
        "episodes=3",
        "random_baseline=2",
        "workers=0",
        "validation_sample.size=4",
        "validation_sample.every=2",
    ]
    assert command("learn", *base, *options, "dashboard=false", "track=mlflow", f"out={out}") == 0
    episodes = pl.read_parquet(out / "episodes.parquet")
    learned = episodes.with_row_index("step", 1).filter(agent="learned")
    for read in (of_tensorboard, of_mlflow):
        (run,) = read(out)["agent"]
        steps, returns = zip(*run.told["learned/return"], strict=True)
        assert list(steps) == learned["step"].to_list()
        assert list(returns) == pytest.approx(learned["return"].to_list())
        shares = [value for _, value in run.told["learned/share/bm25"]]
        assert shares == pytest.approx(learned["share:bm25"].to_list())
        assert len(run.told["random/validation"]) == 2
        assert run.final["recent/mean/return"] == pytest.approx(learned["return"].tail(32).mean())
    events = [event["event"] for event in EventLog.read(Storage(str(out)))]
    assert events[0] == "began"
    assert events[-2:] == ["agent learned", "finished"]


@pytest.mark.by_day(2)
@pytest.mark.parametrize("verb", ["study", "train", "learn", "pool"])
def test_a_package_that_is_missing_stops_a_command_before_it_starts(
    verb: str,
    base: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    real = importlib.util.find_spec  # it also finds modules whose docstrings are kept
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name in {"mlflow", "wandb"} else real(name))
    options = ["runs=nowhere", "qrels=nowhere"] if verb == "pool" else base
    assert command(verb, *options, "track=wandb", f"out={tmp_path / 'out'}") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "pip install 'pyrite-ir[track]'" in error
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())
