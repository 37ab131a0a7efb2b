"""Makes lists of the documents that a collection gives with its queries, and their scores."""

from __future__ import annotations

import numpy as np
import polars as pl

from ranking.collections.collection import Collection
from ranking.ranked_lists import RankedLists


def given_lists(collection: Collection) -> RankedLists:
    """What stands with each query, positives among it, the highest score first; without scores as the file has it.

    Args:
        collection: as `collection=pairs` reads it.

    Returns:
        A row a query, as many columns as the most that one has. Scores are nan where none is given, −inf where there
        is no document.
    """
    queries = pl.DataFrame({"query": collection.queries["id"]}).with_row_index("q")
    rows = collection.given.join(queries, on="query", maintain_order="left")
    rows = (
        rows.with_columns(collection.document_rows(rows["document"]).alias("d"))
        .drop_nulls("d")
        .sort(["q", "score"], descending=[False, True], nulls_last=True, maintain_order=True)
    )
    rows = rows.with_columns(place=pl.int_range(pl.len()).over("q"))
    shape = (len(queries), int(rows["place"].max() or 0) + 1 if len(rows) else 0)  # type: ignore[arg-type]
    lists = RankedLists(np.full(shape, -1, np.int32), np.full(shape, -np.inf, np.float32))
    where = (rows["q"].to_numpy(), rows["place"].to_numpy())
    lists.documents[where] = rows["d"].to_numpy()
    lists.scores[where] = rows["score"].fill_null(np.nan).to_numpy()
    return lists
