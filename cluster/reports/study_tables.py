"""Makes the tables of a study from the outcomes of its runs, and checks beforehand what they will be compared by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import polars as pl
from numpy.typing import NDArray

from cluster.output.methods import METHOD, column_of, factors, with_factors, with_methods
from cluster.output.storage import Storage
from cluster.output.tables import RunRows, write_table
from cluster.plan.sweep import Planned
from cluster.reports import result_tables
from cluster.reports.comparison import named_baseline
from cluster.runs import negative_tables
from cluster.runs.outcome import Outcome, read_outcome
from cluster.runs.stop import Stop
from ranking.collections.collection import Collection


def check_comparison(
    baseline: str | None,
    asked: Sequence[str] | None,
    runs: Sequence[Planned],
    collections: dict[str, Collection],
) -> None:
    """See before anything runs that a baseline names one of the study's methods, and that its factors are swept.

    Args:
        baseline, asked: the study's `baseline` and `factors`.
        runs: all of them.
        collections: by the runs' names.

    Raises:
        BadInput: where they don't, or aren't.
    """
    if baseline is not None or asked is not None:
        rows = [result_tables.trial_row(planned, collections[planned.name], None, None) for planned in runs]
        trials = with_factors(result_tables.trials_table(rows), asked)
        if baseline is not None:
            columns = map(column_of, factors(trials))
            named_baseline(with_methods(trials).select("method", *METHOD, *columns).unique(), baseline)


def write_tables(
    storage: Storage,
    runs: Sequence[Planned],
    collections: dict[str, Collection],
    errors: dict[str, str],
    out_of_time: bool = False,
    stopped: Mapping[str, Stop] | None = None,
) -> int:
    """Write the tables of a study; arguments as of `tables_of`.

    Returns:
        How many runs have failed.
    """
    tables = tables_of(storage, runs, collections, errors, out_of_time, stopped)
    for name, table in tables.items():
        write_table(storage, name, table)
    trials = tables["trials"]
    assert isinstance(trials, pl.DataFrame)
    return int((trials["status"] == "failed").sum())


def tables_of(
    storage: Storage,
    runs: Sequence[Planned],
    collections: dict[str, Collection],
    errors: Mapping[str, str],
    out_of_time: bool = False,
    stopped: Mapping[str, Stop] | None = None,
) -> dict[str, pl.DataFrame | RunRows]:
    """Make the tables trials, queries, samplers, steps and, where there are any, embeddings.

    Queries and steps are read from the runs' results again whenever their rows are asked for.

    Args:
        storage: the study's folder.
        runs: all of them, each once.
        collections: by the runs' names.
        errors: of failed runs, by name.
        out_of_time: whether the study's time was over before all runs had begun: they are neither failed nor done.
        stopped: runs that the scheduler of a search has stopped, which are neither as well.
    """
    from cluster.runs.embeddings import embeddings_table
    from cluster.runs.zero_shot import zero_shot_rows

    rows, samplers, others, done, embedded = [], [], [], [], []
    measures: dict[str, pl.DataType] = {}
    for planned in runs:
        outcome, collection = read_outcome(storage, planned.name), collections[planned.name]
        if planned.name in errors:
            outcome = None  # what stands there is of before, and made from something else
        error = None if outcome else errors.get(planned.name, "did not run")
        row = result_tables.trial_row(planned, collection, outcome, error)
        stop = (stopped or {}).get(planned.name)
        if outcome is None and planned.name not in errors and (out_of_time or stop):
            row |= {"status": "stopped", "error": None}
            row |= {"epochs": stop.at, "curve_validation": list(stop.curve)} if stop else {}
        rows.append(row)
        if outcome:
            done.append(planned)
            measures |= {name: pl.Float64() for values in outcome.values.values() for name in values}
            samplers += result_tables.sampler_rows(planned, outcome)
            others += zero_shot_rows(planned.name, outcome)
            if outcome.embeddings:
                embedded.append(planned.name)
    trials = result_tables.trials_table(rows)

    def outcomes() -> Iterator[tuple[Planned, Outcome]]:
        for planned in done:
            outcome = read_outcome(storage, planned.name)
            assert outcome is not None  # it was there a moment ago, and nobody else writes here
            yield planned, outcome

    def queries() -> Iterator[pl.DataFrame]:
        for planned, outcome in outcomes():
            yield result_tables.query_rows(planned, collections[planned.name], outcome)

    def steps() -> Iterator[pl.DataFrame]:
        for planned, outcome in outcomes():
            yield negative_tables.trace_table(planned.name, list(planned.config["function"]), outcome.traces)

    tables: dict[str, pl.DataFrame | RunRows] = {
        "trials": trials,
        "queries": RunRows(pl.Schema(result_tables.QUERY_SCHEMA | measures if done else {}), queries),
        "samplers": pl.DataFrame(samplers, infer_schema_length=None),
        "steps": RunRows(negative_tables.SCHEMA, steps),
    }
    if others:
        tables["zero_shot"] = pl.concat(others)
    if embedded:
        tables["embeddings"] = embeddings_table(trials, collections, embedded, partial(_embeddings, storage))
    return tables


def _embeddings(storage: Storage, run: str) -> dict[str, NDArray[Any]]:
    outcome = read_outcome(storage, run)
    assert outcome is not None
    return outcome.embeddings
