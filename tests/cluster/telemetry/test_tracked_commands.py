"""The real commands, small, with every tracker."""

import importlib.util
import json
from pathlib import Path

import polars as pl
import pytest

from cluster.output.event_log import FILE, EventLog
from cluster.output.storage import Storage
from cluster.statistics.summary import COSTS
from tests.cluster.command_line import command
from tests.cluster.telemetry.read_back import of_mlflow, of_tensorboard, of_wandb

METHOD = ["ranker=feed_forward", "policy=fixed", "function=bm25", "selector=uniform"]


@pytest.fixture(scope="module")
def study(base, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("tracked") / "study"
    assert command("study", *base, *METHOD, "seeds=2", "track=wandb", "local=true", f"out={out}") == 0
    return out


@pytest.mark.nightly
def test_trackers_have_what_the_tables_have(study):
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
    before = pl.read_csv(study / "summary.csv").drop(COSTS)  # the run is trained again, which costs something else
    assert command("study", "--resume", str(study), "track=wandb") == 0
    assert pl.read_csv(study / "summary.csv").drop(COSTS).equals(before)
    test_trackers_have_what_the_tables_have(study)
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
