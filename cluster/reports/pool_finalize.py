"""Writes what a finished pooling study leaves: tables, summary, figures and report; prints the summary."""

from __future__ import annotations

import io
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl
from rich.console import Console
from rich.markup import escape

from cluster.output.event_log import EventLog
from cluster.output.failure_summary import failure_summary, show
from cluster.output.manifest import CONFIG, read_config
from cluster.output.storage import Storage
from cluster.output.tables import read_table, required_table, write_table
from cluster.pools.sources import NamedPool
from cluster.pools.trial import TABLES, Trial, read_trial_table, trial_store
from cluster.reports.pool_summary import contrasts, summarise
from ranking.errors import BadInput

if TYPE_CHECKING:
    from cluster.plan.pool import PoolPlan


def write_tables(study: PoolPlan, trials: Sequence[Trial], pools: Sequence[NamedPool], errors: dict[str, str]) -> int:
    """Gather the trials' tables into one each, and write trials.parquet.

    Returns:
        How many trials have no result.
    """
    tables = tables_of(study, trials, errors)
    for name, table in tables.items():
        write_table(study.storage, name, table)
    return int((tables["trials"]["status"] == "failed").sum())


def tables_of(study: PoolPlan, trials: Sequence[Trial], errors: Mapping[str, str]) -> dict[str, pl.DataFrame]:
    """The table of trials, and all that they left, gathered into one table of each kind."""
    storage, store = study.storage, trial_store(study.storage, trials)
    overrides = {variant.label: shlex.join(variant.overrides) for variant in study.variants}
    rows: list[dict[str, Any]] = []
    done: list[Trial] = []
    for trial in trials:
        told = store.read(trial.name) if store.has(trial.name) else None
        done += [trial] if told else []
        seconds = told or {}
        rows.append(
            {
                "pool": trial.pool,
                "method": trial.label,
                "overrides": overrides[trial.label],
                "seeds": trial.options["seeds"],
                "status": "done" if told else "failed",
                "error": None if told else errors.get(trial.name, "did not run"),
                "seconds": seconds.get("simulated"),
                "seconds_in_all": seconds.get("all"),
            }
        )
    tables = {"trials": pl.DataFrame(rows, schema_overrides={"error": pl.String})}
    for name in TABLES:
        parts = [content for trial in done if (content := read_trial_table(storage, trial, name)) is not None]
        if parts:
            tables[name] = pl.concat(pl.read_parquet(io.BytesIO(content)) for content in parts)
    return tables


def renew(study: PoolPlan, trials: Sequence[Trial], waiting: int) -> None:
    """Write report.html of a study that still runs.

    Args:
        study: the plan.
        trials: those that have their results.
        waiting: how many have not.
    """
    from cluster.reports.pool_report import render

    config, tables = read_config(study.storage), tables_of(study, trials, {})
    if "budgets" not in tables:
        return
    methods = tables["trials"]["method"].unique(maintain_order=True).to_list()
    summary = summarise(tables["budgets"], methods, config["options"]["baseline"])
    written = (study.storage.read(CONFIG) or b"").decode()
    lost = failure_summary(EventLog.read(study.storage))
    own = {name: table for name, table in tables.items() if name != "trials"}
    page = render(config, tables["trials"], own, summary, contrasts(tables["budgets"], []), written, lost, waiting)
    study.storage.write("report.html", page.html.encode())


def report(storage: Storage, console: Console, baseline: str | None = None) -> None:
    """Make summary.csv, figures and report.html from a study's tables, and print the table.

    Args:
        storage: the study's folder.
        console: shows the table.
        baseline: the method to test the others against; None takes the study's.

    Raises:
        BadInput: where the folder holds no finished pooling study, or the baseline is none of its methods.
    """
    from cluster.reports.pool_report import render
    from cluster.reports.pool_terminal_table import contrast_table, table

    config = read_config(storage)
    trials = required_table(storage, "trials")
    failed = trials.filter(pl.col("status") == "failed")
    tables = {name: frame for name in TABLES if (frame := read_table(storage, name)) is not None}
    if "budgets" in tables:
        methods = trials["method"].unique(maintain_order=True).to_list()
        if baseline is not None and baseline not in methods:
            raise BadInput(f"the baseline {baseline!r} is none of the methods", remedy=f"choose {', '.join(methods)}")
        config["options"]["baseline"] = baseline or config["options"]["baseline"]
        summary = summarise(tables["budgets"], methods, config["options"]["baseline"])
        storage.write("summary.csv", summary.write_csv().encode())
        asked = contrasts(tables["budgets"], config["options"].get("contrasts") or [])
        if len(asked):
            storage.write("contrasts.csv", asked.write_csv().encode())
        lost = failure_summary(EventLog.read(storage))
        page = render(config, trials, tables, summary, asked, (storage.read(CONFIG) or b"").decode(), lost)
        for name, content in page.figures.items():
            storage.write(f"figures/{name}", content)
        storage.write("report.html", page.html.encode())
        console.print(table(summary), crop=False)
        if len(asked):
            console.print(contrast_table(asked), crop=False)
        show(lost, console)
    for name, error in failed.select("method", "error").rows():
        console.print(f"[red]failed[/] {escape(f'{name}: {error}')}")
    if "budgets" not in tables:
        return
    where = storage.shown("report.html")
    console.print(f"report: {escape(where)}", soft_wrap=True)
