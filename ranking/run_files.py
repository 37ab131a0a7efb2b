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
    """The lists of one or more runs, a row for each query of the collection.

    Order within a query is trec_eval's: score (as float32) descending, then document id descending. Queries of the
    run that the collection lacks are passed over (a run may serve several splits); a document that it
    lacks is an error.

    Args:
        paths: TREC runs, plain or .gz.
        collection: gives queries and documents their indices.
        depth: how much of each list is kept; all of it when None, and as many columns as the longest has.

    Raises:
        BadInput: where a file is broken, or ranks a document that the collection lacks.
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
        .with_columns(place=pl.int_range(pl.len()).over("q"))
    )
    if depth is None:
        depth = 1 + int(runs["place"].max() or 0)  # type: ignore[arg-type]
    runs = runs.filter(pl.col("place") < depth)
    shape = (len(queries), depth)
    lists = RankedLists(np.full(shape, -1, np.int32), np.full(shape, -np.inf, np.float32))
    where = (runs["q"].to_numpy(), runs["place"].to_numpy())
    lists.documents[where], lists.scores[where] = runs["d"].to_numpy(), runs["score"].to_numpy()
    return lists
