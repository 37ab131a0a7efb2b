"""Makes ranked lists of the documents and scores that a collection gives with its queries."""

from __future__ import annotations

import numpy as np
import polars as pl

from ranking.collections.collection import Collection
from ranking.ranked_lists import RankedLists


def given_lists(collection: Collection) -> RankedLists:
    """Return the documents given with each query, including positives, the highest score first.

    Without scores they are in the order of the file.

    Args:
        collection: a collection, as `collection=pairs` reads it.

    Returns:
        One row per query, as wide as the longest list. Scores are nan if none is given, −inf if there is no document.
    """
    queries = pl.DataFrame({"query": collection.queries["id"]}).with_row_index("q")
    rows = collection.given.join(queries, on="query", maintain_order="left")
    rows = (
        rows.with_columns(collection.document_rows(rows["document"]).alias("d"))
        .drop_nulls("d")
        .with_columns(pl.col("score").fill_nan(None))
        .sort(["q", "score"], descending=[False, True], nulls_last=True, maintain_order=True)
    )
    rows = rows.with_columns(rank=pl.int_range(pl.len()).over("q"))
    shape = (len(queries), int(rows["rank"].max() or 0) + 1 if len(rows) else 0)  # type: ignore[arg-type]
    lists = RankedLists(np.full(shape, -1, np.int32), np.full(shape, -np.inf, np.float32))
    where = (rows["q"].to_numpy(), rows["rank"].to_numpy())
    lists.documents[where] = rows["d"].to_numpy()
    lists.scores[where] = rows["score"].fill_null(np.nan).to_numpy()
    return lists
