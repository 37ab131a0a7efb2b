"""Reads TREC runs as ranked lists over a collection."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from ranking.collections.collection import Collection
from ranking.errors import BadInput
from ranking.ranked_lists import RankedLists
from ranking.trec_files import read_run


def lists_of_run(paths: Sequence[str], collection: Collection, depth: int | None) -> RankedLists:
    """Return the lists of one or more runs, one row per query of the collection.

    The order within a query is trec_eval's: score (as float32) descending, then document id descending. Queries of the
    run that the collection lacks are skipped (a run may serve several splits); a document that it lacks is an error.

    Args:
        paths: TREC runs, plain or .gz.
        collection: the collection, for the indices of queries and documents.
        depth: the length of each list. None keeps all, with as many columns as the longest has.

    Raises:
        BadInput: if a file is broken, or ranks a document that the collection lacks.
    """
    queries = pl.DataFrame({"query": collection.queries["id"]}).with_row_index("q")
    lines = []
    for path in paths:
        run = read_run(path).select("query", "document", pl.col("score").cast(pl.Float32))
        run = run.join(queries, on="query", maintain_order="left")
        run = run.with_columns(collection.document_rows(run["document"]).alias("d"))
        unknown = run.filter(pl.col("d").is_null())
        if len(unknown):
            query, document = unknown.row(0)[:2]
            raise BadInput(
                f"document {document!r} of query {query!r} is not in {collection.name} ({len(unknown)} such lines)",
                path,
                "is it a run over this collection?",
            )
        lines.append(run)
    runs = (
        pl.concat(lines)
        .sort(["q", "score", "document"], descending=[False, True, True])
        .unique(["q", "d"], keep="first", maintain_order=True)
        .with_columns(rank=pl.int_range(pl.len()).over("q"))
    )
    if depth is None:
        depth = 1 + int(runs["rank"].max() or 0)  # type: ignore[arg-type]
    runs = runs.filter(pl.col("rank") < depth)
    shape = (len(queries), depth)
    lists = RankedLists(np.full(shape, -1, np.int32), np.full(shape, -np.inf, np.float32))
    where = (runs["q"].to_numpy(), runs["rank"].to_numpy())
    lists.documents[where], lists.scores[where] = runs["d"].to_numpy(), runs["score"].to_numpy()
    return lists
