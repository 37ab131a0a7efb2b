"""Reads the values of queries from queries.parquet."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

import numpy as np
import polars as pl

from pyrite.analysis.methods import untrained_of
from pyrite.analysis.statistics.crossed import Floats

Queries: TypeAlias = pl.DataFrame | pl.LazyFrame
"""The frame of `queries.parquet`."""


def values_by_run(queries: Queries, trials: pl.DataFrame, measure: str) -> dict[str, dict[str, Floats]]:
    """Read the values of a measure in finished runs, by origin and run: one per query of the study, NaN if missing.

    Nothing is read if there are no queries, or no column of the measure.
    """
    done = trials.filter(status="done")["run"].to_list()
    return named_values(queries, done, measure)[1]


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
