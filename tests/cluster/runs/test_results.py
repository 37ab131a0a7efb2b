"""What a run leaves: results, what the guard dropped, and cards of trained rankers."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

import pyrite
from pyrite.cluster.output.provenance import code, content_digest, differences
from pyrite.cluster.output.result_store import ResultStore, SavedState
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.plan.sweep import plan, points
from pyrite.cluster.reports.study_tables import check_comparison
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.execute import execute_run, run
from pyrite.cluster.runs.negative_tables import example_rows, write_guarded
from pyrite.cluster.runs.outcome import Outcome, mean_best, read_outcome, run_store, write_outcome
from pyrite.ranking.checkpoint import to_bytes
from pyrite.ranking.digest import checkpoints_of
from pyrite.ranking.errors import BadInput
from pyrite.sampling.guarded_documents import REASONS
from tests.cluster.command_line import command


def test_a_damaged_state_or_result_is_as_good_as_none(base, tmp_path):
    (planned,) = plan(points([], [], base)[0], [], [0])
    artifacts, storage = Artifacts(), Storage(str(tmp_path))
    keys, parts = artifacts.keys(planned.config), artifacts.parts(planned.config)
    SavedState(storage, planned.name, keys).save(b"half of")

    def conduct() -> Outcome:
        return execute_run(planned.name, planned.config, keys, parts, storage, lambda progress: None, run)

    whole = conduct()
    assert not storage.names("states")

    def finished(other: dict[str, str]) -> tuple[set[str], dict[str, int]]:
        done, outdated = run_store(storage, [planned], lambda config: keys | other).finished([planned])
        return done, dict(outdated)

    others = {"base": "another", "commit": "later"}, {"base": "another"}, {}
    assert [finished(other) for other in others] == [(set(), {"base": 1}), (set(), {"base": 1}), ({planned.name}, {})]
    file = tmp_path / "runs" / f"{planned.name}.safetensors"
    file.write_bytes(file.read_bytes()[:-7])
    assert finished({}) == (set(), {})
    assert conduct().losses == whole.losses
    assert read_outcome(storage, planned.name) is not None


def test_a_state_is_good_for_its_parts_and_what_was_never_measured_counts_as_nothing(tmp_path):
    storage = Storage(str(tmp_path))
    one, another, other_run = (
        SavedState(storage, *of) for of in [("run", {"base": "one"}), ("run", {"base": "another"}), ("run-s1", {})]
    )
    for state in (one, other_run):
        state.save(to_bytes({"step": 3}))
    assert one.load() is not None
    assert another.load() is None
    work = [SimpleNamespace(name=name) for name in ("run", "never-begun")]
    now, later = (ResultStore(storage, "runs", {"base": base}) for base in ("one", "another"))
    assert [now.outdated_states(work), later.outdated_states(work)] == [0, 1]
    another.save(to_bytes({"step": 1}))
    assert later.outdated_states(work) == 0
    another.delete()
    assert [one.load(), another.load()] == [None, None]
    assert other_run.load() is not None
    nan = float("nan")
    assert mean_best(Outcome(validations=[[nan], [0.2, 0.4, nan]])) == 0.2
    assert mean_best(Outcome(validations=[[nan, 0.3]])) == 0.3


def test_a_baseline_is_checked_before_anything_runs(base):
    runs = [run for point in points([], [], [*base, "selector=uniform,top"]) for run in plan(point, [], [0])]
    collections = dict.fromkeys([run.name for run in runs], Artifacts().collection(runs[0].config))
    check_comparison(None, None, runs, collections)
    check_comparison("selector=top", None, runs, collections)
    with pytest.raises(BadInput, match="selector=uniform"):
        check_comparison("selector=dynamic", None, runs, collections)


def test_a_result_is_as_old_as_what_it_was_made_of(base, tmp_path):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("moles 1 0\nbats 0 1\n")
    overrides = [text for text in base if not text.startswith("vectors")]
    (planned,) = plan(points([], [], [*overrides, "vectors=file", f"vectors.path={vectors}"])[0], [], [0])
    artifacts = Artifacts()
    before = artifacts.provenance(planned.config)
    os.utime(vectors, (0, 0))
    assert artifacts.provenance(planned.config) == before  # a copy with another date is the same
    vectors.write_text("moles 1 0\nbats 0 2\n")
    assert "base" in differences(before, artifacts.provenance(planned.config))
    assert differences({}, before) == ["version"]
    assert differences({"base": "a", "agent": "b"}, {"base": "c"}) == ["base", "agent"]
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"one")
    node = {"_target_": "x", "front": {"checkpoint": str(folder)}, "rear": {"checkpoint": "name/at-the-hub"}}
    before = checkpoints_of(node)
    assert len(before) == 1
    (folder / "model.safetensors").write_bytes(b"three")
    assert checkpoints_of(node) != before


def test_a_result_outlives_a_commit_that_leaves_its_code_as_it_is():
    now = code("sampling", "cluster/runs")
    assert set(now) - {"version", "commit"} == {"code of sampling", "code of cluster/runs"}
    assert now["code of sampling"] == code("sampling")["code of sampling"] != code("ranking")["code of ranking"]
    later = {**now, "commit": "later"}
    other = {**later, "code of sampling": "another"}
    assert (differences(now, later), differences(now, other)) == ([], ["code of sampling"])
    assert content_digest(now) == content_digest(later) != content_digest(other)
    assert differences({"commit": "of version 0.2"}, later) == ["code of sampling", "code of cluster/runs"]


def test_a_run_writes_what_the_guard_dropped(base, tmp_path):
    out = tmp_path / "out"
    assert command("train", *base, "guard.relative=0.3", f"out={out}") == 0
    guarded = pl.read_parquet(out / "guarded.parquet")
    samplers = pl.read_parquet(out / "samplers.parquet")
    assert guarded.columns == [
        "run", "function", "absolute", "relative", "ceiling", "query", "document", "reason", "score", "positive",
    ]  # fmt: skip
    assert guarded["run"].unique().to_list() == samplers["run"].unique().to_list()
    assert guarded["function"].unique().to_list() == ["bm25"]
    assert guarded["relative"].unique().to_list() == [0.3]
    assert guarded["absolute"].null_count() == len(guarded) > 0
    assert guarded.select("query", "document").is_duplicated().sum() == 0
    assert (guarded["score"] > guarded["positive"] * (1 - 0.3) - 1e-4).all()
    above = guarded.filter(pl.col("reason") == REASONS[0])
    assert (above["score"] > above["positive"]).all()
    assert set(guarded["reason"]) <= set(REASONS)
    assert len(guarded) <= samplers["guarded"].max()


def test_shared_lists_stand_once_and_what_a_run_dropped_by_itself_beside_them(base, tmp_path):
    storage, artifacts = Storage(str(tmp_path)), Artifacts()
    (planned,) = plan(points([], [], base)[0], [], [0])
    write_outcome(storage, planned.name, Outcome())
    write_guarded(storage, [planned], artifacts)
    assert not (tmp_path / "guarded.parquet").exists()  # without a guard
    runs = [run for point in points([], [], [*base, "guard.relative=0.3"]) for run in plan(point, [], [0, 1])]
    own = {
        "fold": 0, "function": "dense", "queries": np.array([1], np.int32), "documents": np.array([2], np.int32),
        "scores": np.array([3.0], np.float32), "positives": np.array([2.5], np.float32),
        "reasons": np.array([0], np.int8), "total": 1,
    }  # fmt: skip
    for planned, rows in zip(runs, ([], [own]), strict=True):
        write_outcome(storage, planned.name, Outcome(guarded=rows))
    write_guarded(storage, runs, artifacts)
    table = pl.read_parquet(tmp_path / "guarded.parquet")
    assert table.filter(pl.col("function") == "bm25")["run"].unique().to_list() == [runs[0].name]
    collection = artifacts.collection(runs[0].config)
    row = table.filter(pl.col("function") == "dense").row(0, named=True)
    assert (row["run"], row["reason"], row["score"], row["positive"]) == (runs[1].name, REASONS[0], 3.0, 2.5)
    assert (row["query"], row["document"]) == (collection.queries["id"][1], collection.documents["id"][2])
    assert read_outcome(storage, runs[1].name) is not None


@pytest.mark.parametrize(("relevant_from", "shown"), [(1, 5), (2, 6)])
def test_a_query_is_shown_with_a_document_that_is_relevant_for_the_run(base, relevant_from, shown):
    """Document 5 has grade 1, document 6 grade 2."""
    (planned,) = plan(points([], [], [*base, f"encoding.relevant_from={relevant_from}"])[0], [], [0])
    collection = Artifacts().collection(planned.config)
    query, ids = collection.queries["id"][0], collection.documents["id"]
    graded = {"query": [query] * 2, "document": [ids[5], ids[6]], "grade": [1, 2]}
    collection = collection.changed(judgements=pl.DataFrame(graded, schema=collection.judgements.schema))
    once = {"query": [0], "document": [9], "function": [0], "times": [1], "margin": [0.5], "score": [1.0]}
    outcome = Outcome(shown=[{name: np.array(values) for name, values in once.items()}])
    (row,) = example_rows(planned, collection, outcome).rows(named=True)
    assert (row["query"], row["document"]) == (query, ids[9])
    assert row["relevant"] == collection.gather("text", np.array([shown]))[0]


class Hub:
    """Stands in for the Hugging Face hub."""

    sent: dict[str, Any] = {}

    def __init__(self, token: str) -> None:
        self.sent.clear()
        self.sent["token"] = token

    def create_repo(self, repository: str, exist_ok: bool) -> str:
        assert exist_ok
        if repository == "ada/taken":
            raise OSError("403: you have no right to write")
        return f"https://hub/{repository}"

    def upload_folder(self, repo_id: str, folder_path: str, commit_message: str) -> None:
        files = [path for path in Path(folder_path).rglob("*") if path.is_file()]
        contents = {str(path.relative_to(folder_path)): path.read_bytes() for path in files}
        self.sent.update(repository=repo_id, files=contents)


@pytest.fixture
def hub(monkeypatch) -> dict[str, Any]:
    monkeypatch.setattr("huggingface_hub.HfApi", Hub)
    monkeypatch.setenv("HF_TOKEN", "my own")
    return Hub.sent


def test_weights_have_a_card_and_are_pushed(base, hub, tmp_path):
    run = pyrite.train(
        [*base, "ranker=dssm", "function=random", "training.max_epochs=1", f"out={tmp_path / 'r'}", "push=ada/gold"]
    )
    text = Path(run.weights).with_suffix(".md").read_text()
    head, body = text.removeprefix("---\n").split("---\n", 1)
    assert "pyrite" in yaml.safe_load(head)["tags"]
    assert f"{run.measures['bm25:AP@10']:.4f}" in body
    rows = ("| policy | fixed |", "| retrieval functions | random |", "| seed | 0 |", "| negatives a pair | 4 |")
    assert all(said in body for said in (*rows, "fingerprint ", "pyrite train "))
    assert (hub["token"], hub["repository"]) == ("my own", "ada/gold")
    assert set(hub["files"]) == {"README.md", "model.json", "model.safetensors"}
    assert hub["files"]["README.md"].decode() == text
    assert hub["files"]["model.safetensors"] == Path(run.weights).read_bytes()


def test_a_checkpoint_is_pushed_as_its_folder(base, checkpoint, hub, tmp_path):
    options = ["ranker=bi_encoder", f"ranker.checkpoint={checkpoint}", "training.max_epochs=1", "teacher=bm25"]
    base = [text for text in base if not text.startswith("ranker.")]
    mined = ["function=[in_batch,bm25]", "negatives.bm25=2", "selector.bm25=top"]
    pyrite.train([*base, *options, *mined, f"out={tmp_path / 'r'}", "push=ada/bert"])
    assert {"README.md", "modules.json", "model.safetensors", "1_Pooling/config.json"} <= set(hub["files"])
    card = hub["files"]["README.md"].decode()
    rows = ("| negatives a pair | 7 of in_batch, 2 of bm25 |", "| selector | uniform, of bm25 Top |")
    assert all(said in card for said in (*rows, "| teacher | bm25 |", "sentence-transformers"))


@pytest.mark.parametrize(
    ("token", "overrides", "said"),
    [
        ("", ["push=ada/gold"], "there is no token of the hub; set HF_TOKEN"),
        ("x", ["push=gold"], "'gold' is no repository"),
        ("x", ["push=ada/taken", "training.max_epochs=1"], r"could not be pushed \(403.*is kept in"),
    ],
)
def test_what_can_not_be_pushed_is_said(base, hub, tmp_path, monkeypatch, token, overrides, said):
    monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(BadInput, match=said):
        pyrite.train([*base, "ranker=static", "function=random", *overrides, f"out={tmp_path / 'r'}"])
    assert (tmp_path / "r" / "trials.parquet").exists() == ("ada/taken" in overrides[0])  # before anything is trained


@pytest.mark.nightly
def test_a_guide_masks_documents_of_the_batch(base, tmp_path, capsys):
    """The guide is a trained run, named by its folder; the masked pairs are in the table of guarded documents."""
    guide, out = tmp_path / "guide", tmp_path / "out"
    asked = [*base, "ranker=static", "function=in_batch", "training.max_epochs=1"]
    assert command("train", *asked, "weights=true", f"out={guide}") == 0
    masking = [f"function.in_batch.guard.ranker={guide}", "function.in_batch.guard.absolute=0.0"]
    capsys.readouterr()
    studied = ["study", *asked, "seeds=1", "sampling.recorded=1.0"]
    assert command(*studied, *masking, f"out={out}") == 0
    assert "in_batch: the guide masks " in capsys.readouterr().out
    guarded = pl.read_parquet(out / "guarded.parquet")
    assert len(guarded) > 0
    assert (guarded["score"] > guarded["positive"]).all()
    assert guarded["absolute"].unique().to_list() == [0.0]
    shown = pl.read_parquet(out / "shown.parquet").select("query", "document")
    assert len(shown) > 0
    assert len(shown.join(guarded, on=["query", "document"], how="semi")) == 0
    plain = tmp_path / "plain"
    assert command(*studied, f"out={plain}") == 0
    before = pl.read_parquet(plain / "shown.parquet").select("query", "document")
    assert len(before.join(guarded, on=["query", "document"], how="semi")) > 0
    no_vectors = [*base, "ranker=feed_forward", "training.max_epochs=1", "weights=true", f"out={tmp_path / 'other'}"]
    assert command("train", *no_vectors) == 0
    refused = [f"function.in_batch.guard.ranker={tmp_path / 'other'}", "function.in_batch.guard.relative=0.0"]
    capsys.readouterr()
    assert command("train", *asked, *refused, f"out={tmp_path / 'refused'}") == 2
    assert "FeedForward has no dense vector per text" in capsys.readouterr().err
