"""Hidden positives that are planted, and what is said of guards."""

import numpy as np
import polars as pl
import pytest

from benchmarks.guard_dose import cells, plant, predictions, split_of
from pyrite.ranking.collections.beir import Beir
from pyrite.ranking.collections.cache import open_collection
from tests.made_up import write_texts


@pytest.fixture
def collection(tmp_path):
    texts = [{"_id": f"d{n}", "text": f"the otter number {n} swims"} for n in range(40)]
    queries = [{"_id": f"q{n}", "text": f"where does otter {n} swim"} for n in range(6)]
    train = [(f"q{n}", f"d{8 * n + k}", 1) for n in range(4) for k in range(8)]
    splits = {"train": train, "dev": [("q4", "d33", 1), ("q4", "d34", 1)], "test": [("q5", "d35", 2)]}
    write_texts(tmp_path / "whole", texts, queries, splits)
    return open_collection(Beir(tmp_path / "whole"), tmp_path / "cache")


def test_hidden_positives_are_training_judgements_and_more_at_a_higher_rate(collection, tmp_path):
    hidden = {}
    for rate in (0.0, 0.3, 0.9, 1.0):
        folder = tmp_path / f"{rate}"
        plant(collection, rate, folder)
        table = pl.read_csv(folder / "hidden.tsv", separator="\t", schema={"query": pl.String, "document": pl.String})
        hidden[rate] = set(table.rows())
        made = open_collection(Beir(folder), tmp_path / "cache")
        left = set(made.judgements.select("query", "document").rows())
        assert not left & hidden[rate]
        assert left | hidden[rate] == set(collection.judgements.select("query", "document").rows())
        assert {("q4", "d33"), ("q4", "d34"), ("q5", "d35")} <= left
        assert {query for query, _ in left} == {f"q{n}" for n in range(6)}
    assert hidden[0.0] == set()
    assert hidden[0.3] < hidden[0.9] < hidden[1.0]
    assert len(hidden[1.0]) == 4 * 7


def test_a_collection_without_a_split_gets_one(collection):
    without = collection.changed(queries=collection.queries.with_columns(split=pl.lit(None, pl.String)))
    splits = split_of(without)["split"]
    assert sorted(splits) == ["dev", "test", "train", "train", "train", "train"] or set(splits) == {
        "train",
        "dev",
        "test",
    }
    assert splits.to_list() == split_of(without)["split"].to_list()
    assert split_of(collection)["split"].to_list() == ["train"] * 4 + ["dev", "test"]


def result(collection: str, rate: float, guard: str, value: float, false: float) -> dict:
    errors = (-0.01, 0.01)  # of a seed, the same with and without the guard
    runs = [{"hardness": "top", "value": value + errors[seed], "false": false, "seed": seed} for seed in (0, 1)]
    return {"collection": collection, "rate": rate, "guard": guard, "runs": runs}


def test_gains_and_their_prediction_by_hand():
    """On both collections the guard gains as much as the share of hidden positives, less .01."""
    results = []
    for name in ("one", "two"):
        for rate, false in ((0.0, 0.0), (0.2, 0.5), (0.5, 1.0)):
            results += [result(name, rate, "none", 0.3, false), result(name, rate, "BM25", 0.29 + false, 0.0)]
    rows = cells(results)
    assert [row["gain"] for row in rows] == pytest.approx([-0.01, 0.49, 0.99] * 2)
    assert [row["high"] - row["low"] for row in rows] == pytest.approx([0.0] * 6)
    assert [row["left"] for row in rows] == [0.0] * 6
    lines = predictions(rows, "BM25")
    assert [line[2] for line in lines] == ["-0.0100 +1.000 × share"] * 2
    errors = np.array([[float(value) for value in line[3:]] for line in lines])
    assert (errors[:, 0] < 0.05).all()
    assert (errors[:, 1] > 0.3).all()
    assert predictions(rows, "teacher") == []
