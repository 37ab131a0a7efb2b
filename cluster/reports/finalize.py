"""Writes what a finished study leaves: tables, summary, figures and report; prints the summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from rich.console import Console
from rich.markup import escape

from cluster.output.event_log import EventLog
from cluster.output.failure_summary import failure_summary, show
from cluster.output.manifest import CONFIG, read_config
from cluster.output.methods import METHOD, column_of, diverged, factors, with_factors, with_methods
from cluster.output.storage import Storage
from cluster.output.tables import read_table, required_table, write_table
from cluster.plan.sweep import Planned
from cluster.reports import result_tables
from cluster.reports.comparison import named_baseline
from cluster.reports.convergence import convergence
from cluster.reports.summary import summarise
from cluster.runs import traces
from cluster.runs.embeddings import embeddings_table
from cluster.runs.outcome import read_outcome
from ranking.collections.collection import Collection
from ranking.errors import BadInput


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


def own_baseline(trials: pl.DataFrame, design: Mapping[str, Any] | None) -> str | None:
    """The baseline that an experiment names, if it is among a study's methods: the user may have left it out."""
    named: str | None = (design or {}).get("baseline")
    if named is None:
        return None
    try:
        named_baseline(with_methods(trials).select("method", *METHOD, *map(column_of, factors(trials))), named)
    except BadInput:
        return None
    return named


def write_tables(
    storage: Storage, runs: Sequence[Planned], collections: dict[str, Collection], errors: dict[str, str]
) -> int:
    """Write the tables of a study; arguments as of `tables_of`.

    Returns:
        How many runs have no result.
    """
    tables = tables_of(storage, runs, collections, errors)
    for name, table in tables.items():
        write_table(storage, name, table)
    return int((tables["trials"]["status"] == "failed").sum())


def tables_of(
    storage: Storage, runs: Sequence[Planned], collections: dict[str, Collection], errors: Mapping[str, str]
) -> dict[str, pl.DataFrame]:
    """Make the tables trials, queries, samplers, steps and, where there are any, embeddings.

    Args:
        storage: the study's folder.
        runs: all of them, each once.
        collections: by the runs' names.
        errors: of failed runs, by name.
    """
    rows, queries, samplers, steps = [], [], [], []
    vectors = {}
    for planned in runs:
        outcome, collection = read_outcome(storage, planned.name), collections[planned.name]
        if planned.name in errors:
            outcome = None  # what stands there is of before, and made from something else
        error = None if outcome else errors.get(planned.name, "did not run")
        rows.append(result_tables.trial_row(planned, collection, outcome, error))
        if outcome:
            queries.append(result_tables.query_rows(planned, collection, outcome))
            samplers += result_tables.sampler_rows(planned, outcome)
            steps.append(traces.trace_table(planned.name, list(planned.config["function"]), outcome.traces))
            if outcome.embeddings:
                vectors[planned.name] = outcome.embeddings
    trials = result_tables.trials_table(rows)
    tables = {
        "trials": trials,
        "queries": pl.concat(queries, how="diagonal") if queries else pl.DataFrame(),
        "samplers": pl.DataFrame(samplers, infer_schema_length=None),
        "steps": pl.concat(steps) if steps else pl.DataFrame(schema=traces.SCHEMA),
    }
    if vectors:
        tables["embeddings"] = embeddings_table(trials, collections, vectors)
    return tables


def renew(storage: Storage, tables: Mapping[str, pl.DataFrame], config: Mapping[str, Any], waiting: int) -> None:
    """Write report.html of a study that still runs, from the tables of what is done.

    Args:
        storage: the study's folder.
        tables: of `tables_of`.
        config: of the study, as `config.yaml` has it.
        waiting: runs that have no result yet.
    """
    from cluster.reports.study_report import render

    own = config.get("study", {})
    trials = with_factors(tables["trials"], own.get("factors"))
    named = {"baseline": own["baseline"]} if own.get("baseline") else config.get("design")
    summary = summarise(trials, own_baseline(trials, named))
    written = (storage.read(CONFIG) or b"").decode()
    page = render(
        trials, tables["queries"], summary, written, config.get("command", ""), config, tables["steps"],
        tables.get("embeddings"), failure_summary(EventLog.read(storage)), waiting,
    )  # fmt: skip
    storage.write("report.html", page.html.encode())


def report(storage: Storage, console: Console, baseline: str | None = None, asked: Sequence[str] | None = None) -> None:
    """Make summary, figures and report.html from a study's tables, and print the table.

    Args:
        storage: the study's folder.
        console: shows the table.
        baseline: a method to test the others against besides the best one; None takes the study's.
        asked: the swept keys by which its methods differ; None takes the study's.

    Raises:
        BadInput: where the folder holds no finished study, the baseline is none of its methods, or a key not swept.
    """
    from cluster.reports.study_report import render
    from cluster.reports.terminal_table import table

    config = read_config(storage)
    trials, queries = required_table(storage, "trials"), required_table(storage, "queries")
    if not (trials["status"] == "done").any():
        failures = trials["error"].drop_nulls().to_list()
        console.print(f"[red]no run came to its end[/]: {escape(failures[0] if failures else 'nothing ran')}")
        return
    own = config.get("study", {})
    trials = with_factors(trials, own.get("factors") if asked is None else asked)
    summary = summarise(trials, baseline or own.get("baseline") or own_baseline(trials, config.get("design")))
    storage.write("summary.csv", summary.write_csv().encode())
    written = (storage.read(CONFIG) or b"").decode()
    rates = convergence(trials)
    if not rates.is_empty():
        storage.write("convergence.csv", rates.write_csv().encode())
    steps, embeddings = read_table(storage, "steps"), read_table(storage, "embeddings")
    lost = failure_summary(EventLog.read(storage))
    page = render(trials, queries, summary, written, config.get("command", ""), config, steps, embeddings, lost)
    for name, content in page.figures.items():
        storage.write(f"figures/{name}", content)
    storage.write("report.html", page.html.encode())
    console.print(table(summary))
    failed = trials.filter(pl.col("status") == "failed")
    for name, error in failed.select("run", "error").rows():
        console.print(f"[red]failed[/] {escape(f'{name}: {error}')}")
    for name, epochs in diverged(trials).select("run", "epochs").rows():
        console.print(
            f"[yellow]diverged[/] {escape(name)} in epoch {epochs}: measured with its best weights from before"
        )
    show(lost, console)
    where = storage.shown("report.html")
    console.print(f"report: {escape(where)}", soft_wrap=True)
