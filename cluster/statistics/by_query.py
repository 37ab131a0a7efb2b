"""Reads the values of queries from queries.parquet, and compares methods by them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
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
    return {} if queries is None else _named_values(queries, runs, measure)[1]


def _named_values(
    queries: Queries, runs: Collection[str], measure: str
) -> tuple[list[str], dict[str, dict[str, Floats]]]:
    """Return the queries of a study, and `values_by_run`, with runs in the order of the table."""
    numbers = QueryNumbers()
    if measure not in queries.lazy().collect_schema().names():
        return [], {}
    portions = [
        (origin, run, numbers.of(names), found) for run, origin, names, found in values_of(queries, runs, measure)
    ]
    portions.reverse()
    values: dict[str, dict[str, Floats]] = {}
    while portions:
        name, run_name, rows, found = portions.pop()
        of_run = values.setdefault(name, {}).setdefault(run_name, np.full(len(numbers.names), np.nan))
        of_run[rows] = found
    return numbers.names, values


def _means(runs: Sequence[Floats], size: int) -> Floats:
    """Return the mean of each query over the runs that have a value for it; NaN if none has."""
    every = np.array(runs).reshape(-1, size)
    known = ~np.isnan(every)
    with np.errstate(invalid="ignore"):
        means: Floats = np.where(known, every, 0.0).sum(0) / known.sum(0)
    return means


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
    names, values = _named_values(queries, methods["run"].to_list(), measure)
    order = np.argsort(np.array(names))
    rows = []
    for identity, best in able.group_by("collection", "ranker", "candidates", maintain_order=True):
        if len(best) < 2 or not names:
            continue
        collection, ranker, origin = identity
        family, by_run = methods.filter(collection=collection, ranker=ranker), values.get(str(origin), {})
        means = []
        for method in best["method"][:2]:
            runs = set(family.filter(method=method)["run"])
            means.append(_means([found for run, found in by_run.items() if run in runs], len(names))[order])
        both = ~np.isnan(means).any(0)
        a, b = (of_method[both] for of_method in means)
        d = a - b
        rows.append(dict(zip(SCHEMA, (
            *identity, *best["method"][:2], d.tolist(), float(d.mean()) if len(d) else None,
            int((d > TIE).sum()), int((np.abs(d) <= TIE).sum()), int((d < -TIE).sum()), paired_t_test(a, b),
        ), strict=True)))  # fmt: skip
    frame = pl.DataFrame(rows, schema=SCHEMA)
    return frame.with_columns(p_holm=pl.Series(holm(frame["p"].to_numpy()), dtype=_number)).fill_nan(None)
