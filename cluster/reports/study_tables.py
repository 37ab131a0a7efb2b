"""Makes the tables of a study from the outcomes of its runs, and checks beforehand what they will be compared by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from cluster.output.methods import METHOD, column_of, factors, with_factors, with_methods
from cluster.output.storage import Storage
from cluster.output.tables import write_table
from cluster.plan.sweep import Planned
from cluster.reports import result_tables
from cluster.reports.comparison import named_baseline
from cluster.runs import traces
from cluster.runs.embeddings import embeddings_table
from cluster.runs.outcome import read_outcome
from cluster.runs.stop import Stop
from cluster.runs.zero_shot import zero_shot_rows
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
    return int((tables["trials"]["status"] == "failed").sum())


def tables_of(
    storage: Storage,
    runs: Sequence[Planned],
    collections: dict[str, Collection],
    errors: Mapping[str, str],
    out_of_time: bool = False,
    stopped: Mapping[str, Stop] | None = None,
) -> dict[str, pl.DataFrame]:
    """Make the tables trials, queries, samplers, steps and, where there are any, embeddings.

    Args:
        storage: the study's folder.
        runs: all of them, each once.
        collections: by the runs' names.
        errors: of failed runs, by name.
        out_of_time: whether the study's time was over before all runs had begun: they are neither failed nor done.
        stopped: runs that the scheduler of a search has stopped, which are neither as well.
    """
    rows, queries, samplers, steps = [], [], [], []
    vectors, others = {}, []
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
            queries.append(result_tables.query_rows(planned, collection, outcome))
            samplers += result_tables.sampler_rows(planned, outcome)
            steps.append(traces.trace_table(planned.name, list(planned.config["function"]), outcome.traces))
            others += zero_shot_rows(planned.name, outcome)
            if outcome.embeddings:
                vectors[planned.name] = outcome.embeddings
    trials = result_tables.trials_table(rows)
    tables = {
        "trials": trials,
        "queries": pl.concat(queries, how="diagonal") if queries else pl.DataFrame(),
        "samplers": pl.DataFrame(samplers, infer_schema_length=None),
        "steps": pl.concat(steps) if steps else pl.DataFrame(schema=traces.SCHEMA),
    }
    if others:
        tables["zero_shot"] = pl.concat(others)
    if vectors:
        tables["embeddings"] = embeddings_table(trials, collections, vectors)
    return tables
