"""Says what was read of a collection, and what a scale leaves of it."""

from pathlib import Path

import polars as pl

from cluster.runs.what_was_read import sentence, sentences
from ranking.collections.cache import open_collection
from ranking.collections.collection import Collection
from ranking.collections.pairs import Pairs


def of_pairs(folder: Path) -> Collection:
    rows = [f"question {number},answer {number % 17}\n" for number in range(40)]
    (folder / "pairs.csv").write_text("question,passage\n" + "".join([*rows, rows[0], rows[1].upper().lower()]))
    return open_collection(Pairs(folder / "pairs.csv"), folder / "cache")


def test_pairs_are_counted_with_duplicates_splits_and_columns(tmp_path):
    collection = of_pairs(tmp_path)
    text = sentence(collection, {"folds": 5})
    assert text == (
        "pairs.csv: 40 pairs (2 duplicates joined), 40 queries, 17 passages → train 32, dev 4, test 4; "
        "columns question, passage"
    )
    assert sentence(of_pairs(tmp_path), {"folds": 5}) == text  # from the cache


def test_what_a_scale_leaves_is_said_once_per_collection(tmp_path):
    collection = of_pairs(tmp_path)
    limits = {"examples": 20, "train": 10, "dev": None, "test": 400}
    config = {"folds": 5, "limits": limits, "choices": {"scale": "tiny"}}
    assert sentence(collection, config).endswith("; scale=tiny takes train 10, at most 20 pairs to train on")
    assert len(sentences([(collection, config), (collection, config)])["pairs"]) == 1
    whole = collection.changed(queries=collection.queries.with_columns(split=pl.lit(None, pl.String)), source={})
    assert (
        sentence(whole, {"folds": 3}) == "pairs: 40 relevant pairs, 40 queries, 17 documents → 3-fold cross-validation"
    )


def test_queries_without_a_relevant_document_are_counted_by_split(tmp_path):
    collection = of_pairs(tmp_path).changed(source={})
    split = dict(collection.queries.select("id", "split").iter_rows())
    none = {next(name for name in split if split[name] == "test")}
    none |= set([name for name in split if split[name] == "train"][:2])
    grade = pl.when(pl.col("query").is_in(list(none))).then(0).otherwise(pl.col("grade")).alias("grade")
    collection = collection.changed(judgements=collection.judgements.with_columns(grade))
    said = "; queries without a relevant document: 2 of train (not trained on), 1 of test (counts as 0)"
    assert sentence(collection, {"folds": 5}).endswith(said)
    whole = collection.changed(queries=collection.queries.with_columns(split=pl.lit(None, pl.String)))
    assert "document: 3 (not trained on; in a test they count as 0)" in sentence(whole, {"folds": 5})
