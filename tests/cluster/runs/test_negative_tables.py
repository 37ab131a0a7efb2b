"""What the guard dropped, in the output folder."""

import numpy as np
import polars as pl

from cluster.output.storage import Storage
from cluster.plan.sweep import plan, points
from cluster.runs.artifacts import Artifacts
from cluster.runs.negative_tables import write_guarded
from cluster.runs.outcome import Outcome, read_outcome, write_outcome
from sampling.guarded_documents import REASONS
from tests.cluster.command_line import command


def test_a_run_writes_what_the_guard_dropped(base, tmp_path):
    out = tmp_path / "out"
    assert command("train", *base, "sampling.guard.relative=0.3", f"out={out}") == 0
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
    runs = [run for point in points([], [], [*base, "sampling.guard.relative=0.3"]) for run in plan(point, [], [0, 1])]
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
