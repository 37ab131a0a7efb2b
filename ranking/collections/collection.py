"""Defines `Collection`, which every reader returns: nothing downstream knows the format it came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ranking.collections.ids import IdTable


@dataclass(frozen=True, eq=False)
class Collection:
    """A test collection: what is searched, what is asked, and what was judged.

    Attributes:
        name: "pydocs", or the name of the folder it was read from.
        fingerprint: 16 hex digits of its whole content and facts. The same files elsewhere have the same fingerprint.
        documents: id, text (title and body joined by a space), category, subcategory (Strings, the last two may be
            null). Mapped from a file in the cache, so that millions of documents cost no memory of the process.
        queries: id, text, split, category, subcategory (Strings). Each has a judgement. The split is "train", "dev"
            or "test", and all three occur; or it is null throughout, and `splits.folds` makes splits by turns.
        judgements: query, document (Strings), grade (Int32): above 0 is relevant, otherwise judged not relevant.
            Sorted by nothing but the order of the files; a pair occurs once.
        given: query, document (Strings), score (Float32, or null): documents that came with a query, negatives among
            them, in the order of the files (`pairs.Pairs`). Empty for other formats.
        skipped: with strict=False, how many faults of each kind were skipped, e.g. `{"broken line": 3}`.
        facts: what a report should state besides, e.g. `{"packages": "torch 2.13.0, …"}`.
        pieces: files of the documents where they are several, by range; one that is opened is mapped.
        ids: of documents in several pieces, sorted on disk.
    """

    name: str
    fingerprint: str
    documents: pl.DataFrame
    queries: pl.DataFrame
    judgements: pl.DataFrame
    given: pl.DataFrame = field(
        default_factory=lambda: pl.DataFrame(schema={"query": pl.String, "document": pl.String, "score": pl.Float32}),
        kw_only=True,
    )
    skipped: dict[str, int] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    pieces: tuple[Path, ...] = field(default=(), kw_only=True)
    ids: IdTable | None = field(default=None, kw_only=True)

    def document_rows(self, ids: pl.Series) -> pl.Series:
        """The row of each document id (UInt32), null where there is none of that name."""
        if self.ids is not None:
            return self.ids.rows_of(ids)
        rows = pl.DataFrame({"id": self.documents["id"]}).with_row_index("row")
        return ids.rename("id").to_frame().join(rows, on="id", how="left", maintain_order="left")["row"]

    def document_keys(self) -> NDArray[np.int32]:
        """The rank of each document's id in ascending byte order, from 1."""
        if self.ids is not None:
            return self.ids.keys()
        return self.documents["id"].rank("ordinal").to_numpy().astype(np.int32)
