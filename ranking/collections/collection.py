"""Defines `Collection`, which every reader returns: nothing downstream knows the format it came from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pyrite.ranking.collections.ids import IdTable
from pyrite.ranking.collections.splits import TEST
from pyrite.ranking.reading import WORDS, Reading

SKETCH = 32
"""Digests in `Collection.test_sketch`: collections with a tenth of their queries in common nearly always share one."""


@dataclass(frozen=True, eq=False)
class Collection:
    """A test collection: documents, queries and judgements.

    Attributes:
        name: "pydocs", or the name of the folder it was read from.
        fingerprint: 16 hex digits of its whole content and facts. The same files elsewhere have the same fingerprint.
        documents: id, text (title and body joined by a space), category, subcategory (Strings, the last two may be
            null). Mapped from a file in the cache, so that millions of documents cost no memory of the process.
        queries: id, text, split, category, subcategory (Strings). Each has a judgement. The split is "train", "dev"
            or "test", and all three occur; or it is null for all, and `splits.folds` makes splits in turn. A column
            `prompt` (null for some), if queries have a text of their own before them, with the blank between the two.
        judgements: query, document (Strings), grade (Int32): above 0 is relevant, −1 in TREC's pool and not
            judged, otherwise judged not relevant. In the order of the files; a pair occurs once.
        given: query, document (Strings), score (Float32, or null): documents that came with a query, including
            negatives, in the order of the files (`pairs.Pairs`). Empty for other formats.
        skipped: with strict=False, the number of skipped faults of each kind, e.g. `{"broken line": 3}`.
        facts: further facts for a report, e.g. `{"packages": "torch 2.13.0, …"}`.
        source: how it was read: `name` of the file, `rows`, `columns`; empty for most formats.
        files: the documents' files, by range; mapped when opened. Empty if the collection is not in a cache.
        rows: the number of documents in each file.
        ids: the ids of documents in several pieces, sorted on disk.
        empty: columns that are null in all documents.
        reading: how its texts are cut into words, the same for everything that counts them.
        self_documents: `drop` if queries that are documents must not find themselves, or `keep`.
        duplicates: `merge` if evaluation takes documents with the same text as one, or `keep`.
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
    source: dict[str, Any] = field(default_factory=dict, kw_only=True)
    files: tuple[Path, ...] = field(default=(), kw_only=True)
    rows: tuple[int, ...] = field(default=(), kw_only=True)
    ids: IdTable | None = field(default=None, kw_only=True)
    empty: tuple[str, ...] = field(default=(), kw_only=True)
    reading: Reading = field(default=WORDS, kw_only=True)
    self_documents: str = field(default="drop", kw_only=True)
    duplicates: str = field(default="keep", kw_only=True)

    def changed(self, **fields: Any) -> Collection:
        """Return a copy with other fields."""
        return replace(self, **fields)

    @property
    def pieces(self) -> tuple[Path, ...]:
        """The files of the documents if there are several."""
        return self.files if len(self.files) > 1 else ()

    @property
    def size(self) -> int:
        """The number of documents."""
        return len(self.documents)

    @cached_property
    def test_sketch(self) -> list[str]:
        """The lowest digests of its test queries' texts: two collections that share queries share some of them.

        All queries are test queries if they have no splits (`splits.folds`).
        """
        tested = self.queries.lazy().filter(pl.col("split").eq_missing(TEST) | pl.col("split").is_null()).select("text")
        texts = set(tested.collect()["text"].to_list())
        return sorted(blake2b(text.encode(), digest_size=8).hexdigest() for text in texts)[:SKETCH]

    def gather(self, column: str, rows: NDArray[np.integer]) -> pl.Series:
        """Return a column of some documents, in the order of `rows`."""
        return self.documents[column].gather(np.asarray(rows).astype(np.uint32))

    def document_rows(self, ids: pl.Series) -> pl.Series:
        """Return the row of each document id (UInt32), null if there is no such document."""
        if self.ids is not None:
            return self.ids.rows_of(ids)
        rows = pl.DataFrame({"id": self.documents["id"]}).with_row_index("row")
        return ids.rename("id").to_frame().join(rows, on="id", how="left", maintain_order="left")["row"]

    def document_keys(self) -> NDArray[np.int32]:
        """Return the rank of each document's id in ascending byte order, from 1."""
        if self.ids is not None:
            return self.ids.keys()
        return self.documents["id"].rank("ordinal").to_numpy().astype(np.int32)


def with_prompts(queries: pl.DataFrame, text: str = "text") -> pl.DataFrame:
    """Return queries whose texts begin with their own prompts, for programs that read nothing but texts.

    Args:
        queries: the queries of a collection, or rows with their texts; a column `prompt` is taken out of it.
        text: the column of the texts.
    """
    if "prompt" not in queries.columns:
        return queries
    return queries.with_columns(pl.concat_str("prompt", text, ignore_nulls=True).alias(text)).drop("prompt")
