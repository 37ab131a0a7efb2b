"""Reads the results of a study from its folder, and writes its report there."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from rich.console import Console
from rich.markup import escape

from pyrite.analysis.reports.study_report import StudyResults, study_report
from pyrite.analysis.reports.verdict_section import Commands
from pyrite.cluster.config.comparison_command import comparison_command
from pyrite.cluster.config.compose import recorded_or_none
from pyrite.cluster.config.mine_command import mine_command
from pyrite.cluster.output.event_log import EventLog
from pyrite.cluster.output.manifest import CONFIG, read_config, resume_command
from pyrite.cluster.output.result_store import ResultStore
from pyrite.cluster.output.run_log import failure_summary
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.output.tables import RunRows, read_table, required_scan, required_trials, scan_table
from pyrite.cluster.reports.publish import publish
from pyrite.cluster.runs.agent_file import FILE as AGENT_FILE
from pyrite.cluster.runs.outcome import AGAIN, FOLDER, read_outcome
from pyrite.ranking.checkpoint import from_bytes

SHOWN = ("trials", "queries", "samplers", "steps", "zero_shot", "examples")
"""The tables that the report shows."""


def read_results(storage: Storage) -> StudyResults:
    """Read the results of a finished study; refuse a folder without any, and damaged tables."""
    by_run = {"queries": required_scan(storage, "queries"), "steps": scan_table(storage, "steps")}
    others = {name: read_table(storage, name) for name in ("zero_shot", "examples", "samplers")}
    return results_of(storage, {"trials": required_trials(storage), **by_run, **others})


def results_of(storage: Storage, tables: Mapping[str, Any], waiting: int = 0) -> StudyResults:
    """Take the tables of `pyrite.cluster.reports.study_tables.tables_of`; those of queries and steps, once they are
    written, are read from their files rather than from the runs' results.
    """
    shown = {}
    for name in (name for name in SHOWN if tables.get(name) is not None):
        table = tables[name]
        if isinstance(table, RunRows):
            written = None if waiting else scan_table(storage, name)
            table = table.lazy() if written is None else written
        shown[name] = table
    return StudyResults(
        repeated=repeated_runs(storage, tables["trials"]),
        **shown | {"trials": with_converged(tables["trials"], storage)},
        config=read_config(storage),
        written=(storage.read(CONFIG) or b"").decode(),
        lost=failure_summary(EventLog.read(storage)),
        waiting=waiting,
        commands=COMMANDS,
        out=shlex.quote(storage.shown()),
    )


def repeated_runs(storage: Storage, trials: pl.DataFrame) -> list[tuple[str, str, float]]:
    """Return each run that was repeated with its seed, a measure's column, and the difference of the second one."""
    found, names = [], ResultStore(storage, FOLDER).keys()
    for name in (name for name in names if name.endswith(AGAIN)):
        first = trials.filter(pl.col("status") == "done", run=name.removesuffix(AGAIN))
        again = read_outcome(storage, name)
        for key, mean in (again.means() if again and len(first) else {}).items():
            column = key.replace("/", ":", 1)
            found.append((first["run"][0], column, mean - first[column][0]))
    return found


def report_study(
    storage: Storage,
    console: Console,
    baseline: str | None = None,
    factors: Sequence[str] | None = None,
    contrasts: Sequence[str] | None = None,
    results: StudyResults | None = None,
) -> None:
    """Write summary, figures and report.html of a study, and print its tables."""
    results = results or read_results(storage)
    if not (results.trials["status"] == "done").any():
        failures = results.trials["error"].drop_nulls().to_list()
        stopped = f"time was over before a run ended; to continue: {resume_command('study', storage.place)}"
        why = [*failures, *([stopped] if (results.trials["status"] == "stopped").any() else []), "nothing ran"]
        console.print(f"[red]no run finished[/]: {escape(why[0])}")
        return
    publish(study_report(results, baseline, factors, contrasts), storage, console)


def with_converged(trials: pl.DataFrame, storage: Storage) -> pl.DataFrame:
    """Add to each run whether the agent in `agents/` of the study has converged; null without a criterion."""
    named = trials["overrides"].str.extract(r"(?:policy|selector)\.checkpoint=\S*/agents/([^/\s'?]+)")
    converged: dict[str, bool | None] = {}
    for name in named.drop_nulls().unique():
        content = storage.read(f"agents/{name}/{AGENT_FILE}")
        converged[name] = from_bytes(content, name)["facts"].get("converged") if content else None
    return trials.with_columns(converged=named.replace_strict(converged, default=None, return_dtype=pl.Boolean))


def test_limit(overrides: str) -> int | None:
    """Return `limits.test` of a run, which a scale may set; None if it takes all test queries, or that is not known."""
    config = recorded_or_none(overrides)
    return None if config is None else config["limits"]["test"]


COMMANDS = Commands(mine_command, comparison_command, test_limit)
"""What a study's report shows and reads commands with."""
