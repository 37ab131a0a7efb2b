"""Runs the runs of a study in this process."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console

from cluster.plan.sweep import Planned
from cluster.runs.artifacts import Artifacts
from cluster.telemetry.tracking.tracking import Tracking
from cluster.tune.decided_runs import DecidedRuns
from cluster.tune.known_runs import KnownRuns
from cluster.tune.live_table import LiveTable
from cluster.tune.local import Report, run_locally
from cluster.tune.optuna_runs import OptunaRuns
from cluster.tune.run_source import RunSource
from cluster.tune.search_scheduler import SearchScheduler
from cluster.tune.study_run import described, study_run
from cluster.tune.time_budget import TimeBudget

if TYPE_CHECKING:
    from cluster.plan.study import StudyPlan


def run_here(
    study: StudyPlan,
    waiting: Sequence[Planned],
    proposals: OptunaRuns | DecidedRuns,
    ready: int,
    artifacts: Artifacts,
    budget: TimeBudget,
    console: Console,
    tracking: Tracking | None = None,
    scheduler: SearchScheduler | None = None,
) -> dict[str, str]:
    """Run what is not finished, one run after another; arguments and results as of `trainable.run_on_tune`."""
    parts: dict[str, Any] = {}

    def execute(run: dict[str, Any], report: Report) -> None:
        config = json.loads(run["config"])
        for name, key in run["parts"].items():
            if key not in parts:
                parts[key] = artifacts.part(config, name)
        study_run(run, {name: parts[key] for name, key in run["parts"].items()}, study.storage, report)

    sources: list[RunSource] = []
    if waiting:
        sources.append(KnownRuns([described(planned, artifacts) for planned in waiting]))
    if proposals.total > proposals.finished:
        proposals.describe = lambda planned: described(planned, artifacts)
        sources.append(proposals)
    before = proposals.finished
    total = ready + len(waiting) + proposals.total - before
    measure = [*waiting, *proposals.examples()][0].config["validation"]["measure"]
    errors: dict[str, str] = {}
    with LiveTable(console, total, ready, measure) as table:
        proposals.on_total = lambda count: setattr(table, "total", ready + len(waiting) + count - before)
        for source in sources:
            given = budget.limit(source, scheduler)
            errors |= run_locally(
                execute, given, study.storage, study.options["retries"], table, tracking, scheduler=scheduler
            )
    return errors
