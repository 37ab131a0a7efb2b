"""Compares methods query by query, reading queries.parquet in portions."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cluster.output.methods import with_methods
from cluster.output.tables import batches
from cluster.statistics.paired import Floats
from ranking.evaluation.significance import holm, paired_t_test

Queries: TypeAlias = pl.DataFrame | pl.LazyFrame
"""The frame of `queries.parquet`."""
TIE = 1e-9
_text, _count, _number = pl.String(), pl.Int64(), pl.Float64()
SCHEMA: dict[str, pl.DataType] = {
    **dict.fromkeys(("collection", "ranker", "candidates", "first", "second"), _text),
    "differences": pl.List(_number),
    "difference": _number,
    **dict.fromkeys(("wins", "ties", "losses"), _count),
    "p": _number,
}


def values_of(
    queries: Queries, runs: Collection[str], measure: str, origins: Collection[str] | None = None
) -> Iterator[tuple[str, str, pl.Series, Floats]]:
    """Yield run, origin, ids of queries, and the values of a measure (NaN if missing), in the table's order.

    Rows of a run may come in several portions.
    """
    chosen = queries.lazy().select("run", "query", "origin", measure).filter(pl.col("run").is_in(list(runs)))
    if origins is not None:
        chosen = chosen.filter(pl.col("origin").is_in(list(origins)))
    for batch in batches(chosen):
        for (run, origin), part in batch.partition_by("run", "origin", as_dict=True, maintain_order=True).items():
            yield str(run), str(origin), part["query"], part[measure].to_numpy()


class QueryNumbers:
    """Numbers queries in the order in which they first occur."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._last = pl.Series([], dtype=pl.String), np.zeros(0, np.int32)

    @property
    def names(self) -> list[str]:
        """All queries so far, by number."""
        return list(self._known)

    def of(self, queries: pl.Series) -> NDArray[np.int32]:
        """The queries' numbers; runs over the same queries, as most are, are looked up only once."""
        before, numbers = self._last
        if not before.equals(queries):
            numbers = np.array([self._known.setdefault(query, len(self._known)) for query in queries], np.int32)
            self._last = queries, numbers
        return numbers


def values_by_run(queries: Queries | None, runs: Collection[str], measure: str) -> dict[str, dict[str, Floats]]:
    """Read the values of a measure by origin and run, one per query of the study, NaN if missing.

    Nothing is read if there are no queries, or no column of the measure.
    """
    if queries is None or measure not in queries.lazy().collect_schema().names():
        return {}
    numbers = QueryNumbers()
    portions = [
        (origin, run, numbers.of(names), found) for run, origin, names, found in values_of(queries, runs, measure)
    ]
    values: dict[str, dict[str, Floats]] = {}
    while portions:
        name, run_name, rows, found = portions.pop()
        of_run = values.setdefault(name, {}).setdefault(run_name, np.full(len(numbers.names), np.nan))
        of_run[rows] = found
    return values


class QueryMeans:
    """Means by query over runs, summed in the order in which they are added."""

    def __init__(self) -> None:
        self._numbers = QueryNumbers()
        self._totals, self._counts = np.zeros(0), np.zeros(0, np.int64)

    def add(self, queries: pl.Series, values: Floats) -> None:
        """Add some rows; NaN counts as missing."""
        numbers, known = self._numbers.of(queries), ~np.isnan(values)
        missing = max(0, int(numbers.max(initial=-1)) + 1 - len(self._totals))
        self._totals, self._counts = np.pad(self._totals, (0, missing)), np.pad(self._counts, (0, missing))
        np.add.at(self._totals, numbers[known], values[known])
        np.add.at(self._counts, numbers[known], 1)

    def means(self) -> pl.DataFrame:
        """Columns query and mean; without queries that no run has a value for."""
        known = self._counts > 0
        names = pl.Series("query", self._numbers.names, pl.String).filter(pl.Series(known))
        return names.to_frame().with_columns(mean=self._totals[known] / self._counts[known])


def best_two(trials: pl.DataFrame, queries: Queries, summary: pl.DataFrame, measure: str) -> pl.DataFrame:
    """Compare the two best methods of each ranker and origin on the same queries.

    A query's figure is first averaged over a method's runs, so that seeds do not count as queries. The same queries
    choose the two methods, so the difference is larger than others would show, and p too small: a
    description, not a test of a question that was asked beforehand.

    Returns:
        The columns of SCHEMA: differences (first minus second, one per query), their mean, wins, ties and losses of the
        first, p of a paired t-test over queries; and p_holm. No row if fewer than two methods have results.
    """
    methods = with_methods(trials).select("run", "collection", "ranker", "method")
    able = summary.filter((pl.col("measure") == measure) & (pl.col("runs") > 0) & (pl.col("ranker") != "bm25"))
    able = able.sort("collection", "ranker", maintain_order=True)
    compared = [
        (*identity, *best["method"][:2])
        for identity, best in able.group_by("collection", "ranker", "candidates", maintain_order=True)
        if len(best) > 1
    ]
    if measure not in queries.lazy().collect_schema().names():
        compared = []
    wanted: dict[tuple[str, str], list[QueryMeans]] = {}  # by run and origin
    means = []
    for collection, ranker, origin, *pair in compared:
        family = methods.filter(collection=collection, ranker=ranker)
        means.append((QueryMeans(), QueryMeans()))
        for method, mean in zip(pair, means[-1], strict=True):
            for run in family.filter(method=method)["run"]:
                wanted.setdefault((run, origin), []).append(mean)
    runs, origins = {run for run, _ in wanted}, {origin for _, origin in wanted}
    for run, origin, names, values in values_of(queries, runs, measure, origins) if wanted else ():
        for mean in wanted.get((run, origin), ()):
            mean.add(names, values)
    rows = []
    for identity, (of_first, of_second) in zip(compared, means, strict=True):
        both = of_first.means().join(of_second.means(), on="query").sort("query")
        a, b = both["mean"].to_numpy(), both["mean_right"].to_numpy()
        d = a - b
        rows.append(dict(zip(SCHEMA, (
            *identity, d.tolist(), float(d.mean()) if len(d) else None,
            int((d > TIE).sum()), int((np.abs(d) <= TIE).sum()), int((d < -TIE).sum()), paired_t_test(a, b),
        ), strict=True)))  # fmt: skip
    frame = pl.DataFrame(rows, schema=SCHEMA)
    return frame.with_columns(p_holm=pl.Series(holm(frame["p"].to_numpy()), dtype=_number)).fill_nan(None)
