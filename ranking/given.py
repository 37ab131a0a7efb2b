"""Makes ranked lists of the documents and scores that a collection gives with its queries."""

from __future__ import annotations

import polars as pl

from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.ranked_lists import RankedLists


def given_lists(collection: Collection) -> RankedLists:
    """Return the documents given with each query (`collection=pairs`), including positives, the highest score first.

    Without scores they are in the order of the file. Rows are as wide as the longest list. Scores are nan if none is
    given, −inf if there is no document.
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
    depth = int(rows["rank"].max() or 0) + 1 if len(rows) else 0  # type: ignore[arg-type]
    return RankedLists.of_rows(rows.with_columns(pl.col("score").fill_null(float("nan"))), len(queries), depth)
