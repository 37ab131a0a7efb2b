"""The real commands, small."""

import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.console import Console

from pyrite.cluster.commands.resuming import read
from pyrite.cluster.commands.study import STUDY, StudyWork
from pyrite.cluster.config.build import EXTRAS
from pyrite.cluster.output.event_log import EventLog
from pyrite.cluster.output.storage import Storage
from tests.cluster.command_line import command
from tests.made_up import write_files

FILES = {"config.yaml", "trials.parquet", "queries.parquet", "samplers.parquet", "steps.parquet"}
FILES |= {"summary.csv", "report.html"}
MEASURED = ["bm25:AP@10", "random:RR@10", "curve_loss", "curve_validation"]


@pytest.fixture(scope="module")
def study(base, tmp_path_factory) -> Path:
    """The main job's nine methods over a made-up collection, two seeds each, in this process."""
    out = tmp_path_factory.mktemp("studies") / "main"
    assert command("study", *base, "seeds=2", "local=true", f"out={out}") == 0
    return out


def test_a_study_leaves_its_files_and_a_summary_of_its_methods(study):
    assert {path.name for path in study.iterdir() if path.is_file()} >= FILES
    assert {path.suffix for path in (study / "figures").iterdir()} == {".png"}
    assert not list(study.rglob("*.part"))
    assert not (study / "states").exists() or not list((study / "states").iterdir())
    summary = pl.read_csv(study / "summary.csv")
    needed = ["ranker", "policy", "function", "selector", "measure", "candidates", "runs", "mean", "std", "min", "max"]
    assert {*needed, "t_p", "ks_p"} <= set(summary.columns)
    rankers = summary.filter(pl.col("ranker") == "static")
    assert rankers.select("policy", "function", "selector").n_unique() == 9
    assert rankers["runs"].unique().to_list() == [2]
    assert set(summary["candidates"]) == {"bm25", "random"}


OF_FILE = """
title: Mine
seeds: 1
methods:
  - {label: hard, function: bm25, selector: top}
  - {label: plain, function: bm25}
baseline: plain
contrasts: [hard, plain]
"""


def test_a_files_baseline_and_contrasts_are_checked_before_anything_runs(base, tmp_path, refusal):
    path, out = tmp_path / "mine.yaml", tmp_path / "out"
    for wrong, says in (("baseline: plian", "'plian'"), ("contrasts: [hrad, plain]", "'hrad' in its overrides")):
        path.write_text(re.sub(f"(?m)^{wrong.partition(':')[0]}:.*", wrong, OF_FILE))
        assert says in refusal("study", str(path), *base, "local=true", f"out={out}")
        assert not (out / "trials.parquet").exists()
    path.write_text(OF_FILE)
    assert command("study", str(path), *base, "local=true", f"out={out}") == 0
    changed = f"out={tmp_path / 'changed'}"  # whose methods are others than the file's: its words may name none
    path.write_text(OF_FILE.replace("[hard,", "[hrad,"))
    assert command("study", str(path), *base, "function=random", "local=true", changed) == 0


def test_runs_go_seed_by_seed(study):
    """An interrupted study has about as many seeds of every method."""
    seeds = dict(pl.read_parquet(study / "trials.parquet").select("run", "seed").rows())
    events = [event for event in EventLog.read(Storage(str(study))) if event["event"] == "run ended"]
    assert [seeds[event["run"]] for event in events] == [0] * 9 + [1] * 9


def test_its_page_shows_negatives_that_were_shown(study):
    examples = pl.read_parquet(study / "examples.parquet")
    assert examples["run"].n_unique() == 9  # a run of each method
    assert examples["query"].n_unique() == 3
    assert set(examples["function"]) == {"bm25", "random", "in_batch"}
    page = (study / "report.html").read_text("utf-8")
    assert "Examples of negatives" in page
    judged = examples.join(pl.read_parquet(study / "trials.parquet").select("run", "seed"), on="run")
    assert judged["seed"].unique().to_list() == [0]
    assert (examples["text"] != examples["relevant"]).all()


def test_what_no_run_could_do_is_refused_before_anything_is_written(base, tmp_path, refusal):
    given = ["policy=fixed", "function=judged,random", "selector=uniform", "local=true", f"out={tmp_path / 'out'}"]
    assert "function=judged: no document was judged not relevant" in refusal("study", *base, *given)
    assert not (tmp_path / "out").exists()


@pytest.mark.nightly
def test_in_this_process_it_is_the_same(study, base, ray_session, experiments, tmp_path, monkeypatch, capsys):
    ended = [event for event in EventLog.read(Storage(str(study))) if event["event"] == "run ended"]
    assert len(ended) == 18
    there = tmp_path / "there"
    asked = ["policy=fixed", "function=bm25", "selector=uniform", "seeds=1", "concurrent=1"]
    for name in ("analysis.reports.study_report.study_report", "cluster.reports.study_results.report_study"):
        # Another process does this, because this one holds the runs.
        monkeypatch.setattr(f"pyrite.{name}", lambda *_: pytest.fail("done in this process"))
    assert command("study", *base, *asked, f"out={there}") == 0
    (folder,) = experiments
    assert not Path(folder).exists()
    assert not (there / "tune").exists()
    assert f"report: {there}/report.html" in capsys.readouterr().out.replace("\n", "")
    on_tune = pl.read_parquet(there / "trials.parquet").select("run", *MEASURED).sort("run")
    here = pl.read_parquet(study / "trials.parquet").join(on_tune, on="run", how="semi").sort("run")
    assert len(on_tune) == 1
    assert here.select("run", *MEASURED).rows() == on_tune.rows()


def test_the_command_beside_a_run_reproduces_it_and_continues(study, tmp_path, refusal):
    row = pl.read_parquet(study / "trials.parquet").row(5, named=True)
    assert command("train", *shlex.split(row["overrides"]), f"out={tmp_path / 'one'}") == 0
    again = pl.read_parquet(tmp_path / "one" / "trials.parquet").row(0, named=True)
    assert [again[column] for column in ("run", *MEASURED)] == [row[column] for column in ("run", *MEASURED)]
    assert (tmp_path / "one" / "weights" / row["run"] / "model.safetensors").is_file()
    before = (tmp_path / "one" / "queries.parquet").read_bytes()
    assert command("train", "--resume", str(tmp_path / "one")) == 0
    assert (tmp_path / "one" / "queries.parquet").read_bytes() == before
    assert "seed=3 can't change on resume" in refusal("train", "--resume", str(tmp_path / "one"), "seed=3")
    assert "was written by `pyrite study`" in refusal("train", "--resume", str(study))


def test_what_is_finished_is_neither_run_again_nor_overwritten(study, capsys, base, refusal):
    before = {name: (study / name).read_bytes() for name in ("report.html", "summary.csv")}
    assert command("study", "--resume", str(study)) == 0
    assert "18 done" in capsys.readouterr().out
    assert {name: (study / name).read_bytes() for name in before} == before
    assert "--resume" in refusal("study", *base, f"out={study}")
    assert "search=optuna can't change a study" in refusal("study", "search=optuna", "--resume", str(study))
    assert "holds results of `pyrite study`" in refusal("train", *base, f"out={study}")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["study", "--resume", "nowhere"], "nowhere"),
        (["study", "seeds=0"], "seeds"),
        (["study", "search=grid"], "search"),
        (["study", "oops"], "oops"),
        (["train", "selector=top,uniform"], "study"),
        (["train", "function=in_batch", "training.batch_size=1", "sampling.negatives=2"], "choose 2 or more"),
        (["report", "nowhere"], "nowhere"),
        (["study", "seeds=2", "seed=0,1"], "seed"),
        (["study", "--resume", __file__], "test_study"),
        (["report", __file__], "test_study"),
        (["train", f"out={__file__}"], "test_study"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, says, refusal, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert says in refusal(*arguments)


@pytest.mark.parametrize(
    "content",
    ["a: [", "study: 5\noverrides: []\ndesign: {}", "overrides: [seed=0]", "study: {seeds: x}\noverrides: []"],
)
def test_a_damaged_configuration(content, tmp_path, refusal):
    (tmp_path / "config.yaml").write_text(content)
    assert refusal("study", "--resume", str(tmp_path))


def test_a_failed_run_is_reported_and_the_others_go_on(base, tmp_path, capsys):
    out = tmp_path / "failing"
    # One of the rates is far too high.
    sweep = ["policy=fixed", "function=bm25", "selector=uniform", "optimizer.lr=1e30,0.01"]
    assert command("study", *base, *sweep, "seeds=1", "local=true", f"out={out}") == 1
    trials = pl.read_parquet(out / "trials.parquet")
    assert sorted(trials["status"]) == ["done", "failed"]
    assert trials.filter(status="failed")["error"][0].startswith("training diverged in epoch 1 ")
    assert "failed" in capsys.readouterr().out


def test_a_study_needs_no_package_of_an_extra(base, tmp_path, monkeypatch, refusal):
    """Only a search needs Optuna, and names its extra."""
    for name in EXTRAS:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "pyrite.cluster.search.optuna_runs", raising=False)
    asked = [*base, "policy=fixed", "function=random,bm25", "selector=uniform", "seeds=2", "local=true", "track=[]"]
    assert command("study", *asked, f"out={tmp_path / 'out'}") == 0
    searched = [*asked, "optimizer.lr=tag(log,interval(1e-4,1e-2))", "search=optuna", "samples=2"]
    assert "pip install 'pyrite-ir[search]'" in refusal("study", *searched, f"out={tmp_path / 'searched'}")


def test_a_folder_in_place_of_the_moved_one_is_left_alone(base, tmp_path, monkeypatch, refusal):
    out, execute = tmp_path / "out", StudyWork.execute
    asked = [*base, "policy=fixed", "function=random", "selector=uniform", "seeds=1", "local=true", f"out={out}"]

    def swapped(work: StudyWork, *arguments: Any) -> None:
        execute(work, *arguments)
        out.rename(tmp_path / "moved")
        write_files(out, {"thesis.txt": "mine"})

    monkeypatch.setattr(StudyWork, "execute", swapped)
    said = refusal("study", *asked)
    assert "out: was removed during the run; delete what was written there since, or choose another out=" in said
    assert (out / "thesis.txt").read_text() == "mine"
    monkeypatch.undo()
    assert "holds other files" in refusal("study", *asked)
    shutil.rmtree(out)
    assert command("study", *asked) == 0


@pytest.mark.gpu
def test_two_runs_share_a_gpu(study, base, cuda, tmp_path):
    asked = ["policy=fixed", "function=bm25", "selector=uniform", "seeds=2", "resources.gpu=0.5", "dashboard=false"]
    assert command("study", *base, *asked, f"out={tmp_path}") == 0
    events = [event["event"] for event in EventLog.read(Storage(str(tmp_path)))]
    assert [event for event in events if event in ("run started", "run ended")][:2] == ["run started", "run started"]
    found, expected = (pl.read_parquet(folder / "trials.parquet") for folder in (tmp_path, study))
    same = (pl.col("policy") == "fixed") & (pl.col("function") == "bm25") & (pl.col("selector") == "uniform")
    losses = [trials.filter(same).sort("seed")["curve_loss"].list.first() for trials in (found, expected)]
    assert losses[0].to_list() == pytest.approx(losses[1].to_list(), rel=1e-3)


@pytest.mark.nightly
def test_the_report_of_half_a_study(base, tmp_path):
    out = tmp_path / "out"
    asked = [*base, "policy=fixed", "function=bm25,random", "selector=uniform", "seeds=1", "local=true", f"out={out}"]
    assert command("study", *asked) == 0
    whole = (out / "report.html").read_text()
    assert "still running" not in whole
    next((out / "runs").glob("*random*")).unlink()
    study = read(STUDY, [], str(out))
    work = study.prepare(Console(quiet=True))
    work.renew()
    page = (out / "report.html").read_text()
    assert "1 done, 1 to come, the study is still running" in page
    assert "bm25 · uniform" in page
    assert "random · uniform" not in page
    (out / "report.html").unlink()
    work.renew()  # nothing has happened since
    assert not (out / "report.html").exists()
    assert command("study", "--resume", str(out), "local=true") == 0
    assert "2 done</dd>" in (out / "report.html").read_text()
