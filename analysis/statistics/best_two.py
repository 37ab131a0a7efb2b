"""Compares the two best methods of each ranker query by query."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from pyrite.analysis.methods import evaluations
from pyrite.analysis.statistics.by_query import named_values
from pyrite.analysis.statistics.comparison import MethodRuns
from pyrite.analysis.statistics.crossed import Floats, mean
from pyrite.analysis.statistics.places import Places
from pyrite.ranking.evaluation.significance import holm, paired_t_test

TIE = 1e-9
_text, _count, _number = pl.String(), pl.Int64(), pl.Float64()
KEY = ("collection", "ranker", "candidates")
SCHEMA: dict[str, pl.DataType] = {
    **dict.fromkeys((*KEY, "first", "second"), _text),
    "differences": pl.List(_number),
    "difference": _number,
    **dict.fromkeys(("wins", "ties", "losses"), _count),
    "p": _number,
}


def best_two(places: Places, summary: pl.DataFrame, measure: str) -> pl.DataFrame:
    """Compare the two best methods of each ranker and origin on the same queries.

    A query's figure is first averaged over a method's runs, so that seeds do not count as queries. The same queries
    choose the two methods, so the difference is larger than others would show, and p (of a paired t-test over queries)
    too small: a description, not a test of a question that was asked beforehand.
    """
    names, values = named_values(places.queries, places.results["run"].unique().to_list(), measure)
    order, rows = np.argsort(np.array(names)), []
    at = [(origin, each) for origin, each in evaluations(places.trials) if each == measure]
    by_key = {tuple(place.key[name] for name in KEY): place for place in places.at(at)}
    able = summary.filter(pl.col("measure") == measure, pl.col("runs") > 0, pl.col("ranker") != "bm25")
    for best in able.sort("collection", "ranker", maintain_order=True).partition_by(KEY, maintain_order=True):
        key, (first, *others) = best.select(KEY).row(0), best["method"][:2].to_list()
        for second in others if names else ():
            methods = (by_key[key].methods[method] for method in (first, second))
            means = [_means(runs, values[key[2]])[order] for runs in methods]
            rows.append((*key, first, second, *_compared(*(mean[~np.isnan(means).any(0)] for mean in means))))
    frame = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    return frame.with_columns(p_holm=pl.Series(holm(frame["p"].to_numpy()), dtype=_number)).fill_nan(None)


def _compared(a: Floats, b: Floats) -> tuple[object, ...]:
    """Return the differences of two methods by query, and what follows from them."""
    d = a - b
    counts = int((d > TIE).sum()), int((np.abs(d) <= TIE).sum()), int((d < -TIE).sum())
    return (d.tolist(), mean(d), *counts, paired_t_test(a, b))


def _means(method: MethodRuns, by_run: Mapping[str, Floats]) -> Floats:
    """Return the mean of each query over the runs that have a value for it; NaN if none has."""
    runs = {run.name for run in method.runs}
    every = np.array([values for run, values in by_run.items() if run in runs])
    known = ~np.isnan(every)
    with np.errstate(invalid="ignore"):
        means: Floats = np.where(known, every, 0.0).sum(0) / known.sum(0)
    return means
