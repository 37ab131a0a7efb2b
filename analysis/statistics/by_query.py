"""Reads the values of queries from queries.parquet, and compares methods by them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeAlias

import numpy as np
import polars as pl

from pyrite.analysis.methods import untrained_of, with_methods
from pyrite.analysis.statistics.paired import Floats
from pyrite.ranking.evaluation.significance import holm, paired_t_test

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


def values_by_run(queries: Queries | None, trials: pl.DataFrame, measure: str) -> dict[str, dict[str, Floats]]:
    """Read the values of a measure in finished runs, by origin and run: one per query of the study, NaN if missing.

    Nothing is read if there are no queries, or no column of the measure.
    """
    done = trials.filter(status="done")["run"].to_list()
    return {} if queries is None else named_values(queries, done, measure)[1]


def named_values(
    queries: Queries, runs: Collection[str], measure: str
) -> tuple[list[str], dict[str, dict[str, Floats]]]:
    """Return the names of the queries, and `values_by_run`: queries and runs are in the order of the table.

    The values of a run's ranker before its training are under the name of `untrained_of`.
    """
    columns = queries.lazy().collect_schema().names()
    if measure not in columns:
        return [], {}
    before = [name for name in (untrained_of(measure),) if name in columns]
    chosen = queries.lazy().select("run", "query", "origin", measure, *before).filter(pl.col("run").is_in(list(runs)))
    numbers: dict[str, int] = {}
    names, rows = pl.Series([], dtype=pl.String), np.zeros(0, np.int32)
    portions = []  # rows of a run may come in several
    for batch in chosen.collect_batches(maintain_order=True, engine="streaming"):
        for (run, origin), part in batch.partition_by("run", "origin", as_dict=True, maintain_order=True).items():
            if not names.equals(part["query"]):  # runs over the same queries, as most are, are looked up only once
                names = part["query"]
                rows = np.array([numbers.setdefault(query, len(numbers)) for query in names], np.int32)
            portions.append((str(origin), str(run), rows, part[measure].to_numpy()))
            for name in before:
                portions.append((str(origin), untrained_of(str(run)), rows, part[name].to_numpy()))
    portions.reverse()
    values: dict[str, dict[str, Floats]] = {}
    while portions:
        name, run_name, rows, found = portions.pop()
        of_run = values.setdefault(name, {}).setdefault(run_name, np.full(len(numbers), np.nan))
        of_run[rows] = found
    return list(numbers), values


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
    choose the two methods, so the difference is larger than others would show, and p (of a paired t-test over queries)
    too small: a description, not a test of a question that was asked beforehand.
    """
    methods = with_methods(trials).select("run", "collection", "ranker", "method")
    able = summary.filter((pl.col("measure") == measure) & (pl.col("runs") > 0) & (pl.col("ranker") != "bm25"))
    able = able.sort("collection", "ranker", maintain_order=True)
    names, values = named_values(queries, methods["run"].to_list(), measure)
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
        counts = int((d > TIE).sum()), int((np.abs(d) <= TIE).sum()), int((d < -TIE).sum())
        mean = float(d.mean()) if len(d) else None
        rows.append((*identity, *best["method"][:2], d.tolist(), mean, *counts, paired_t_test(a, b)))
    frame = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    return frame.with_columns(p_holm=pl.Series(holm(frame["p"].to_numpy()), dtype=_number)).fill_nan(None)
