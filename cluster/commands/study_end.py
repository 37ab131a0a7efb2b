"""Writes what a study leaves: tables and report at its end, the page while it runs; in this process or a separate one.

Where a Ray is there already, the process that hands out the runs holds neither the libraries of figures nor the rows of
all queries, for it lives as long as the study.
"""

from __future__ import annotations

import io
from collections.abc import Container, Mapping, Sequence
from typing import Any

from rich.console import Console

from pyrite.analysis.reports.study_report import study_report
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.plan.sweep import Planned
from pyrite.cluster.reports import publish
from pyrite.cluster.reports.study_results import report_study, results_of
from pyrite.cluster.reports.study_tables import tables_of, write_tables
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.model_card import write_cards
from pyrite.cluster.runs.negative_tables import write_guarded, write_shown
from pyrite.cluster.runs.outcome import Stop, run_store


def renew(storage: Storage, runs: Sequence[Planned], waiting: int, artifacts: Artifacts | None = None) -> None:
    """Write the page of a study that still runs: of the runs with a result; `waiting` others will have one."""
    artifacts = artifacts or Artifacts()
    collections = {planned.name: artifacts.collection(planned.config) for planned in runs}
    tables = tables_of(storage, runs, collections, {})
    publish.renew(study_report(results_of(storage, tables, waiting)), storage)


def finalize(
    console: Console,
    storage: Storage,
    runs: Sequence[Planned],
    errors: Mapping[str, str],
    out_of_time: bool,
    stopped: Mapping[str, Stop],
    left: Container[str],
    baseline: str | None,
    factors: Sequence[str] | None,
    artifacts: Artifacts | None = None,
) -> int:
    """Write tables and report of all runs, each once; print them, and return the number of failed runs."""
    artifacts = artifacts or Artifacts()
    collections = {planned.name: artifacts.collection(planned.config) for planned in runs}
    tables = tables_of(storage, runs, collections, errors, out_of_time, stopped, left)
    failed = write_tables(storage, tables)
    for planned in runs:
        if planned.name in stopped:
            run_store(storage, [planned], artifacts.provenance).state(planned.name).delete()
    ended = [planned for planned in runs if planned.name not in left and planned.name not in errors]
    write_guarded(storage, ended, artifacts)
    write_cards(storage, ended, collections)
    write_shown(storage, ended, artifacts)
    report_study(storage, console, baseline, factors, results=results_of(storage, tables))
    return failed


def finalize_apart(look: Mapping[str, Any], **arguments: Any) -> tuple[int, str]:
    """Return how many runs have failed, and what `finalize` prints: the body of a separate process."""
    said = io.StringIO()
    failed = finalize(Console(file=said, highlight=False, emoji=False, **look), **arguments)
    return failed, said.getvalue()
