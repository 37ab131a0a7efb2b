"""Shapes mined negatives into rows: triplets, tuples or labelled pairs, and what stands beside each row."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cluster.mining.miner import Mined
from ranking.collections.collection import Collection
from sampling.guarded_documents import REASONS, GuardedDocuments

FORMS = ("tuples", "triplets", "labelled_pairs")
"""How rows look; elsewhere these are called n-tuple, triplet and labeled-pair."""


def rows_of(
    mined: Mined, collection: Collection, names: list[str], form: str, scores: bool
) -> tuple[pl.DataFrame, pl.DataFrame, int]:
    """The rows of a shard.

    Args:
        mined: its negatives.
        collection: gives texts and ids.
        names: of the functions.
        form: of `FORMS`. Of tuples only those with all their negatives are rows.
        scores: whether the texts have a column of scores.

    Returns:
        The texts, with nothing beside them but a label or scores where there are any: what trainers read. For each of
        these rows ids, ranks, scores and functions (`query_id`, then lists: positives first, rank 0 and no function).
        And how many examples are in no row for want of negatives.
    """
    count = mined.negatives.shape[1]
    examples = np.arange(len(mined.queries))
    there = mined.negatives >= 0
    if form == "tuples":
        kept = np.flatnonzero(there.all(axis=1))
        places = np.broadcast_to(np.arange(1 + count), (len(kept), 1 + count))
    elif form == "triplets":
        kept, column = np.nonzero(there)
        places = np.stack([np.zeros(len(kept), np.int64), 1 + column], axis=1)
    else:
        kept, column = np.nonzero(np.concatenate([there.any(axis=1, keepdims=True), there], axis=1))
        places = column[:, None]
    beside = _beside(mined, collection, names, kept, places)
    documents = np.concatenate([mined.positives[:, None], mined.negatives], axis=1)[kept[:, None], places]
    columns: dict[str, Any] = {"query": collection.queries["text"].gather(mined.queries[kept].astype(np.uint32))}
    for at, name in enumerate(_names(form, count)):
        columns[name] = collection.gather("text", documents[:, at])
    if form == "labelled_pairs":
        columns["label"] = (places[:, 0] == 0).astype(np.int64)
    texts = pl.DataFrame(columns)
    if scores:
        of_rows = beside["scores"]
        texts = texts.with_columns(of_rows.list.first().alias("score") if form == "labelled_pairs" else of_rows)
    return texts, beside, len(examples) - len(np.unique(kept))


def _names(form: str, count: int) -> list[str]:
    if form == "labelled_pairs":
        return ["document"]
    if form == "triplets" or count == 1:
        return ["positive", "negative"]
    return ["positive", *(f"negative_{place}" for place in range(1, 1 + count))]


def _beside(
    mined: Mined, collection: Collection, names: list[str], kept: NDArray[np.intp], places: NDArray[np.integer]
) -> pl.DataFrame:
    """Ids, ranks, scores and functions of the documents of each row."""
    positive = np.zeros((len(mined.queries), 1), np.int32)
    documents = np.concatenate([mined.positives[:, None], mined.negatives], axis=1)[kept[:, None], places]
    ranks = np.concatenate([positive, mined.ranks], axis=1)[kept[:, None], places]
    functions = np.concatenate([positive, mined.functions + 1], axis=1)[kept[:, None], places]
    called = pl.Series([None, *names], dtype=pl.String)
    shape = (len(kept), places.shape[1])
    return pl.DataFrame({
        "query_id": collection.queries["id"].gather(mined.queries[kept].astype(np.uint32)),
        "document_ids": collection.gather("id", documents.ravel()).reshape(shape).arr.to_list(),
        "ranks": pl.Series(ranks.ravel()).reshape(shape).arr.to_list(),
        "scores": pl.Series(mined.scores[kept[:, None], places].ravel()).fill_nan(None).reshape(shape).arr.to_list(),
        "functions": called.gather(functions.ravel().astype(np.uint32)).reshape(shape).arr.to_list(),
    })  # fmt: skip


def guarded_rows(record: GuardedDocuments, collection: Collection, function: str) -> pl.DataFrame:
    """What the guard dropped from a function's lists: a row a query and document, with the reason."""
    return pl.DataFrame({
        "function": pl.Series([function] * len(record.queries), dtype=pl.String),
        "query_id": collection.queries["id"].gather(record.queries.astype(np.uint32)),
        "document_id": collection.gather("id", record.documents),
        "reason": pl.Series(list(REASONS), dtype=pl.String).gather(record.reasons.astype(np.uint32)),
        "score": record.scores,
        "positive": record.positives,
    })  # fmt: skip


def counts_of(mined: Mined, names: list[str], rows: int, left_out: int) -> dict[str, Any]:
    """What a shard's summary says: sums, so that those of all shards add up."""
    found: dict[str, Any] = {"examples": len(mined.queries), "rows": rows, "left out": left_out, "functions": {}}
    first = mined.scores[:, 0]
    known = ~np.isnan(first)
    found["positives scored"], found["positives' scores"] = int(known.sum()), float(first[known].sum(dtype=np.float64))
    for index, name in enumerate(names):
        own = mined.functions == index
        given = own & (mined.negatives >= 0)
        scored = mined.scores[:, 1:][given]
        scored = scored[~np.isnan(scored)]
        found["functions"][name] = {
            "negatives": int(given.sum()),
            "missing": int((own & ~given).sum()),
            "guarded": mined.guarded[name].total,
            "ranks": int(mined.ranks[given].sum()),
            "ranked": int((mined.ranks[given] > 0).sum()),
            "scores": float(scored.sum(dtype=np.float64)),
            "scored": len(scored),
        }
    return found
