"""Reads what chosen runs reached query by query, some rows of queries.parquet at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cluster.output.tables import batches


def values_of(
    queries: pl.DataFrame | pl.LazyFrame, runs: Collection[str], origins: Collection[str], measure: str
) -> Iterator[tuple[str, str, pl.Series, NDArray[np.float64]]]:
    """Yield run, origin, ids of queries, and the values of a measure (NaN where there is none), in the table's order.

    Rows of a run may come in several portions.

    Args:
        queries: the frame of `queries.parquet`.
        runs, origins: those that are wanted.
        measure: a column.
    """
    wanted = pl.col("run").is_in(list(runs)), pl.col("origin").is_in(list(origins))
    chosen = queries.lazy().select("run", "query", "origin", measure).filter(*wanted)
    for batch in batches(chosen):
        for (run, origin), part in batch.partition_by("run", "origin", as_dict=True, maintain_order=True).items():
            yield run, origin, part["query"], part[measure].to_numpy()


class QueryNumbers:
    """Numbers queries in the order in which they first come."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._last = pl.Series([], dtype=pl.String), np.zeros(0, np.int32)

    @property
    def names(self) -> list[str]:
        """All of them so far, by number."""
        return list(self._known)

    def of(self, queries: pl.Series) -> NDArray[np.int32]:
        """Their numbers; runs over the same queries, as most are, are asked but once."""
        before, numbers = self._last
        if not before.equals(queries):
            numbers = np.array([self._known.setdefault(query, len(self._known)) for query in queries], np.int32)
            self._last = queries, numbers
        return numbers


class QueryMeans:
    """Means by query over runs, added up in the order in which they come."""

    def __init__(self) -> None:
        self._numbers = QueryNumbers()
        self._totals, self._counts = np.zeros(0), np.zeros(0, np.int64)

    def add(self, queries: pl.Series, values: NDArray[np.float64]) -> None:
        """Take some rows; NaN is none."""
        numbers, there = self._numbers.of(queries), ~np.isnan(values)
        missing = max(0, int(numbers.max(initial=-1)) + 1 - len(self._totals))
        self._totals, self._counts = np.pad(self._totals, (0, missing)), np.pad(self._counts, (0, missing))
        np.add.at(self._totals, numbers[there], values[there])
        np.add.at(self._counts, numbers[there], 1)

    def means(self) -> pl.DataFrame:
        """Columns query and mean; without queries that no run has a value for."""
        there = self._counts > 0
        names = pl.Series("query", self._numbers.names, pl.String).filter(pl.Series(there))
        return names.to_frame().with_columns(mean=self._totals[there] / self._counts[there])
