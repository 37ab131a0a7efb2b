"""Hands out what a study has still to run, wherever it runs, and shows how far it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console

from cluster.plan.sweep import Planned
from cluster.runs.artifacts import Artifacts
from cluster.telemetry.tracking.tracking import Tracking
from cluster.tune.decided_runs import DecidedRuns
from cluster.tune.known_runs import KnownRuns
from cluster.tune.live_table import LiveTable
from cluster.tune.local_workers import LocalWorkers
from cluster.tune.optuna_runs import OptunaRuns
from cluster.tune.run_source import RunSource
from cluster.tune.search_scheduler import SearchScheduler
from cluster.tune.study_run import described
from cluster.tune.time_budget import TimeBudget

if TYPE_CHECKING:
    from cluster.plan.study import StudyPlan


@dataclass(frozen=True)
class StudyWork:
    """What a study has still to run.

    Args:
        study: options and storage.
        waiting: the runs that are known and not finished.
        proposals: those that are proposed while the study runs.
        ready: how many of the study's runs are finished.
        artifacts: makes the parts.
        budget: how long runs may begin.
        console: shows the live table.
        tracking: of the study.
        scheduler: of a search.
        workers: processes beside this one, for runs that need no Ray.
    """

    study: StudyPlan
    waiting: Sequence[Planned]
    proposals: OptunaRuns | DecidedRuns
    ready: int
    artifacts: Artifacts
    budget: TimeBudget
    console: Console
    tracking: Tracking | None = None
    scheduler: SearchScheduler | None = None
    workers: LocalWorkers | None = None

    @property
    def known(self) -> list[Planned]:
        """All runs that wait, and one of each kind that is proposed later."""
        return [*self.waiting, *self.proposals.examples()]

    def run(
        self, describe: Callable[[Planned], dict[str, Any]], execute: Callable[[RunSource, LiveTable], dict[str, str]]
    ) -> dict[str, str]:
        """Run it all: first what is known, then what is proposed.

        Args:
            describe: a known run, as it is handed out.
            execute: runs what a source hands out, and gives the errors of runs that failed for good, by their names.

        Returns:
            The errors of all.
        """
        sources: list[RunSource] = []
        if self.waiting:
            sources.append(KnownRuns([describe(planned) for planned in self.waiting]))
        proposals, before = self.proposals, self.proposals.finished
        if proposals.total > before:
            proposals.describe = lambda planned: described(planned, self.artifacts)
            sources.append(proposals)
        others = self.ready + len(self.waiting) - before
        errors: dict[str, str] = {}
        measure = self.known[0].config["validation"]["measure"]
        with LiveTable(self.console, others + proposals.total, self.ready, measure) as table:
            proposals.on_total = lambda count: setattr(table, "total", others + count)
            for source in sources:
                errors |= execute(self.budget.limit(source, self.scheduler), table)
        return errors
