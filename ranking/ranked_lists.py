"""Holds ranked lists of many queries as rectangular arrays, for retrieval, sampling and evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pyrite.ranking.encoding import Judgements


@dataclass(frozen=True)
class RankedLists:
    """One ranked list per query, best first, left-packed.

    Args:
        documents: int32 [queries, depth], −1 after the end of a shorter list.
        scores: float32 [queries, depth], −inf if the document is −1.
    """

    documents: NDArray[np.int32]
    scores: NDArray[np.float32]

    @classmethod
    def empty(cls, queries: int, depth: int) -> RankedLists:
        """Make lists without documents."""
        return cls(np.full((queries, depth), -1, np.int32), np.full((queries, depth), -np.inf, np.float32))

    @classmethod
    def of_rows(cls, rows: pl.DataFrame, queries: int, depth: int) -> RankedLists:
        """Make lists of rows in any order: the query `q`, the `rank` from 0, the document `d`, and its `score`."""
        lists, places = cls.empty(queries, depth), (rows["q"].to_numpy(), rows["rank"].to_numpy())
        lists.documents[places], lists.scores[places] = rows["d"].to_numpy(), rows["score"].to_numpy()
        return lists

    def __len__(self) -> int:
        return len(self.documents)

    @property
    def counts(self) -> NDArray[np.int64]:
        """The number of documents of each list."""
        return (self.documents >= 0).sum(axis=1)

    def take(self, queries: NDArray[np.integer]) -> RankedLists:
        """Return the lists of `queries`."""
        return RankedLists(self.documents[queries], self.scores[queries])

    def head(self, depth: int | None) -> RankedLists:
        """Return the first `depth` documents of each list; None keeps all."""
        return RankedLists(self.documents[:, :depth], self.scores[:, :depth])

    def keep(self, kept: NDArray[np.bool_]) -> RankedLists:
        """Return only the documents for which `kept` [queries, depth] is true, packed to the left again."""
        kept = kept & (self.documents >= 0)
        order = np.argsort(~kept, axis=1, kind="stable")
        packed = np.take_along_axis(kept, order, 1)
        documents = np.where(packed, np.take_along_axis(self.documents, order, 1), -1)
        scores = np.where(packed, np.take_along_axis(self.scores, order, 1), -np.inf)
        return RankedLists(documents.astype(np.int32), scores.astype(np.float32))

    def without_relevant(self, judgements: Judgements) -> RankedLists:
        """Return the lists without documents that are judged relevant for their query."""
        return self.keep(~judgements.are_relevant(np.arange(len(self)), self.documents))


def stack_lists(lists: list[tuple[NDArray[np.integer], NDArray[np.floating]]], depth: int) -> RankedLists:
    """Return ragged (documents, scores) lists, best first, as rectangular arrays cut to `depth`."""
    stacked = RankedLists.empty(len(lists), depth)
    for row, (ranked, values) in enumerate(lists):
        length = min(len(ranked), depth)
        stacked.documents[row, :length], stacked.scores[row, :length] = ranked[:length], values[:length]
    return stacked


def rectangle(
    values: NDArray[Any], offsets: NDArray[np.int64], queries: NDArray[np.integer], nothing: float
) -> NDArray[Any]:
    """Return the values of each query as one row [q, most], at least one wide, filled with `nothing`.

    Args:
        values: the values of all queries, one after the other.
        offsets: int64, the start of each query's values, and their end.
    """
    starts = offsets[queries]
    counts = offsets[queries + 1] - starts
    columns = np.arange(counts.max(initial=1))
    places = np.where(columns < counts[:, None], starts[:, None] + columns, -1)
    return np.append(values, values.dtype.type(nothing))[places]
