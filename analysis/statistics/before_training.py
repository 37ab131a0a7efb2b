"""Makes the rows of rankers before their training, which have no run, and compares methods with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from pyrite.analysis.methods import UNTRAINED, untrained_of
from pyrite.analysis.statistics.comparison import MethodRuns
from pyrite.analysis.statistics.crossed import Floats
from pyrite.ranking.evaluation.significance import bootstrap_interval

SAME = 1e-6
"""Up to this difference two starting rankers are one: processors differ in the last bits."""


def untrained_twin(runs: MethodRuns, results: pl.DataFrame) -> MethodRuns | None:
    """Return the ranker before its training as a method, one value for each run of another method.

    Each run of the other method is so compared with what it started from: differences have a seed and queries.

    Args:
        runs: the other method.
        results: the rows of `measurements` of its ranker, on one collection, origin and measure.

    Returns:
        None if a run started from nothing, or its result is older than such values.
    """
    started = dict(results.select("run", "untrained").drop_nulls().iter_rows())
    if not runs.runs or any(run.name not in started for run in runs.runs):
        return None
    identity = {**dict.fromkeys(runs.identity, "-"), "ranker": runs.identity["ranker"], "method": UNTRAINED}
    return MethodRuns(
        identity, [replace(run, value=started[run.name], name=untrained_of(run.name)) for run in runs.runs]
    )


def untrained_rows(
    results: pl.DataFrame, columns: Sequence[str], by_query: Mapping[str, Floats], about: int
) -> list[dict[str, object]]:
    """Return the rows of a summary for a ranker before its training; none if it starts from nothing.

    The interval is over queries alone: nothing was drawn. If the runs start from rankers that differ, by an option that
    is swept, each has a row.

    Args:
        results: the rows of `measurements` of one ranker, on one collection, origin and measure.
        columns: the columns that identify a method.
        by_query: the values of each run by query; empty if they are not known.
        about: the seed of the resamples.
    """
    rows, means = [], list[float]()
    known = results.drop_nulls("untrained").unique("untrained", keep="first", maintain_order=True)
    for run, ranker, mean in known.select("run", "ranker", "untrained").iter_rows():
        if any(abs(mean - other) <= SAME for other in means):
            continue
        means.append(mean)
        values = by_query.get(untrained_of(run), np.zeros(0))
        low, high = bootstrap_interval(values[~np.isnan(values)], np.random.default_rng([0, about]))
        row: dict[str, object] = {**dict.fromkeys(columns, "-"), "ranker": ranker, "method": UNTRAINED}
        rows.append(row | {"runs": 0, "failed": 0, "diverged": 0, "mean": mean, "ci_low": low, "ci_high": high})
    return rows
