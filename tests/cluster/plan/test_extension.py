"""Studies that are extended: their runs stay, and the rest is added."""

from pathlib import Path

import polars as pl
import pytest
import yaml

from cluster.commands.study import StudyExperiment
from cluster.plan.extension import extended, refused_change
from cluster.plan.study import StudyPlan
from cluster.plan.sweep import identity
from ranking.errors import BadInput
from tests.cluster.command_line import command

SMALL = ["scale=tiny", "policy=fixed", "function=bm25", "selector=uniform"]


def plan_of(tmp_path: Path, *more: str) -> StudyPlan:
    return StudyExperiment.new([*SMALL, *more, f"out={tmp_path / 'out'}"]).plan


def ids(plan: StudyPlan) -> set[str]:
    return {identity(run.config) for run in plan.runs()[0]}


def test_more_seeds_are_added(tmp_path):
    plan = plan_of(tmp_path, "seeds=2")
    more = extended(plan, {"seeds": 5}, [])
    assert ids(plan) < ids(more)
    assert sorted(run.config["seed"] for run in more.runs()[0]) == [0, 1, 2, 3, 4]
    with pytest.raises(BadInput, match=r"seeds=1 is less than the 2 of this study; nothing is removed"):
        extended(plan, {"seeds": 1}, [])
    with pytest.raises(BadInput, match="names its seeds by seed="):
        extended(plan_of(tmp_path, "seed=range(0,2)"), {"seeds": 3}, [])
    with pytest.raises(BadInput, match="seed=3 can't change a study that has begun: seeds are numbered from 0"):
        extended(plan, {}, ["seed=3"])


def test_more_samples_are_added_to_those_that_were_drawn(tmp_path):
    plan = plan_of(tmp_path, "seeds=1", "samples=3", "optimizer.lr=interval(0.001,0.1)")
    more = extended(plan, {"samples": 5}, [])
    assert (plan.sample_batches, more.sample_batches) == ((3,), (3, 2))
    assert len(ids(plan)) == 3
    assert ids(plan) < ids(more)
    assert len(ids(more)) == 5
    again = extended(more, {"samples": 6}, [])
    assert again.sample_batches == (3, 2, 1)
    assert ids(more) < ids(again)
    with pytest.raises(BadInput, match="samples=4 is less than the 5"):
        extended(more, {"samples": 4}, [])


def test_further_values_are_added_to_what_is_compared(tmp_path):
    plan = plan_of(tmp_path, "seeds=1")
    more = extended(plan, {}, ["selector=top"])
    assert {run.config["choices"]["selector"] for run in more.runs()[0]} == {"uniform", "top"}
    assert ids(plan) < ids(more)
    both = extended(more, {}, ["function=random,bm25"])
    assert len(ids(both)) == 4
    assert ids(more) < ids(both)
    of_option = extended(plan, {}, ["training.batch_size=16"])  # which was not given: the value of the runs is kept
    assert sorted(run.config["training"]["batch_size"] for run in of_option.runs()[0])[0] == 16
    assert ids(plan) < ids(of_option)
    same = extended(plan, {}, ["run_time=30m"])
    assert ids(same) == ids(plan)
    assert same.runs()[0][0].config["run_time"] == "30m"


def test_what_can_not_be_added_is_refused(tmp_path):
    plan = plan_of(tmp_path, "seeds=1")
    with pytest.raises(BadInput, match="have no option nothing"):
        extended(plan, {}, ["nothing=1"])
    with pytest.raises(BadInput, match="sweeps over an interval"):
        extended(plan, {}, ["optimizer.lr=interval(0.1,0.2)"])
    search = plan_of(tmp_path, "seeds=1", "search=optuna", "optimizer.lr=interval(0.001,0.1)")
    with pytest.raises(BadInput, match="chose its settings by 1 seed each"):
        extended(search, {"seeds": 2}, [])
    assert "the settings of a search" in str(refused_change("search=optuna", "out"))
    with pytest.raises(BadInput, match="can't change a search that has begun"):
        extended(search, {}, ["training.batch_size=16"])
    assert len(extended(search, {"samples": 20}, []).runs()[1]) == 1
    assert "the study's results depend on it" in str(refused_change("stop=decided", "out"))


@pytest.mark.nightly
def test_a_finished_study_is_extended_by_the_command(base, tmp_path):
    out = tmp_path / "study"
    small = [*base, "function=random", "policy=fixed", "selector=uniform", "track=[]", "local=true", "seeds=1"]
    assert command("study", *small, f"out={out}") == 0
    (first,) = (out / "runs").iterdir()
    before = first.stat().st_mtime_ns
    assert command("study", "--resume", str(out), "seeds=2") == 0
    assert command("study", "--resume", str(out), "selector=top") == 0  # the seeds are recorded
    assert first.stat().st_mtime_ns == before  # what is there stays
    trials = pl.read_parquet(out / "trials.parquet")
    assert sorted(trials.select("selector", "seed").rows()) == [("top", 0), ("top", 1), ("uniform", 0), ("uniform", 1)]
    assert set(trials["status"]) == {"done"}
    config = yaml.safe_load((out / "config.yaml").read_text())
    assert [text.partition(str(out))[2] for text in config["extended"]] == [" seeds=2", " selector=top"]
    for change, reason in (("seeds=1", "nothing is removed"), ("stop=decided", "depend on it"), ("out=x", "stay in")):
        with pytest.raises(BadInput, match=reason):
            StudyExperiment.read([change], str(out))
