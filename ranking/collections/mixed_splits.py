"""Decides which queries of each collection of a mixture train, validate and test."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from pyrite.ranking.collections.checks import PRECEDENCE
from pyrite.ranking.collections.reader import counted
from pyrite.ranking.collections.splits import DEV, NO_TEST, NO_TRAINING, TEST, TRAIN, usable, with_test
from pyrite.ranking.contents import normalized

TESTED = 0.1
"""The share of the queries that becomes the test of a collection without splits, as of pairs."""
OF_DEV = {frozenset({TRAIN, DEV}): {DEV: TEST}, frozenset({DEV, TEST}): {DEV: TRAIN}}
"""What queries of dev become if another split is lacking, as in `pyrite.ranking.collections.splits.usable`."""


def texts_of(queries: pl.DataFrame, judgements: pl.DataFrame) -> pl.DataFrame:
    """Return the queries of a collection as they are when equal texts are joined
    (`pyrite.ranking.collections.checks.join_repeats`): query (the first id), text, split.
    """
    splits = judgements.select("query", "split").unique(maintain_order=True)
    named = _named_texts(queries).join(splits, on="query", how="inner", maintain_order="left")
    return named.group_by("text", maintain_order=True).agg(
        pl.col("query").first(), pl.col("split").sort_by(PRECEDENCE).first()
    )


def _named_texts(queries: pl.DataFrame) -> pl.DataFrame:
    """Return the text of each query in a form that is equal if they are one query: query, text."""
    texts = queries.select(query="id", text=normalized(queries["text"]))
    return texts.filter(pl.col("text") != "").unique("query", keep="first", maintain_order=True)


def queries_of(queries: pl.DataFrame, texts: pl.DataFrame) -> pl.DataFrame:
    """Return the ids (query) of all queries with some texts."""
    return _named_texts(queries).join(texts, on="text", how="semi").select("query")


def without_leaks(texts: Sequence[pl.DataFrame]) -> list[pl.DataFrame]:
    """Return the queries of collections without those of train that another collection tests or validates, and those of
    dev that another one tests.
    """
    every = pl.concat(texts)  # a collection has a text once, so that what tests it is another
    for split, ahead in {TRAIN: (DEV, TEST), DEV: (TEST,)}.items():
        seen = every.filter(pl.col("split").is_in(ahead))["text"].implode()
        texts = [rows.filter((pl.col("split") != split) | ~pl.col("text").is_in(seen)) for rows in texts]
    return list(texts)


def fewer(before: pl.DataFrame, after: pl.DataFrame, split: str) -> int:
    """Return how many queries of a split are left out."""
    return len(before.filter(split=split)) - len(after.filter(split=split))


def became_dev(before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
    """Return the queries that trained before and are of dev after."""
    return after.filter(split=DEV).join(before.filter(split=TRAIN), on="query", how="semi")


def trained_of(rows: pl.DataFrame) -> list[str]:
    """Return the queries that train, in order of their ids."""
    return rows.filter(pl.col("split") == TRAIN)["query"].sort().to_list()


def as_read_alone(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the judgements of a collection with queries that train and test, as if it were read alone.

    Without a split, or with train only, a tenth of its queries is the test. dev replaces the one of both that lacks.
    """
    if rows["split"].null_count() < len(rows):
        rows = rows.with_columns(pl.col("split").fill_null(TRAIN))
        present = set(rows["split"].unique())
        if present != {TRAIN}:
            return rows.with_columns(pl.col("split").replace(OF_DEV.get(frozenset(present), {})))
    return with_test(rows, max(1, round(TESTED * rows["query"].n_unique())))


def with_dev(texts: pl.DataFrame) -> pl.DataFrame:
    """Return the queries that were drawn of a collection, a share of those that train as dev if it has none."""
    final = usable(texts.select("split", id="query"))["split"]  # null if one query trains
    return texts.with_columns(split=pl.coalesce(final, "split"))


def facts_of_dev(name: str, given: pl.DataFrame, final: pl.DataFrame) -> dict[str, str]:
    """Return the facts that queries of dev are the test of a collection, or train, for lack of others."""
    queries = final.filter((given["split"] == DEV).fill_null(False)).unique("query")["split"]
    counts = {NO_TEST: int((queries == TEST).sum()), NO_TRAINING: int((queries == TRAIN).sum())}
    return counted({f"{what} ({name})": (count, "") for what, count in counts.items()})
