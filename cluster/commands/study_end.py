"""Writes what a study leaves: tables and report at its end, the page while it runs; here or in a process of its own.

Where a Ray is there already, the process that hands out the runs holds neither the libraries of figures nor the rows of
all queries, for it lives as long as the study.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from cluster.executors.processes import in_process
from cluster.output.storage import Storage
from cluster.plan.sweep import Planned
from cluster.runs.outcome import Stop
from cluster.runs.results import run_store

if TYPE_CHECKING:
    from cluster.runs.artifacts import Artifacts


@dataclass(frozen=True)
class StudyEnd:
    """Writes tables and report of `runs`: all planned and proposed ones, each once; to `renew`, those with a result."""

    storage: Storage
    runs: Sequence[Planned]
    waiting: int = 0
    errors: Mapping[str, str] = field(default_factory=dict)
    out_of_time: bool = False
    stopped: Mapping[str, Stop] = field(default_factory=dict)
    baseline: str | None = None
    factors: Sequence[str] | None = None

    def renew(self, artifacts: Artifacts) -> None:
        """Write the page of a study that still runs."""
        from cluster.reports.study_report import StudyResults, study_report
        from cluster.reports.study_tables import tables_of

        collections = {planned.name: artifacts.collection(planned.config) for planned in self.runs}
        tables = tables_of(self.storage, self.runs, collections, {})
        report = study_report(StudyResults.of_tables(self.storage, tables, self.waiting))
        report.renew(self.storage)

    def finalize(self, artifacts: Artifacts, console: Console) -> int:
        """Write tables and report, print them, and return the number of failed runs."""
        from cluster.reports.study_report import StudyResults, report_study
        from cluster.reports.study_tables import tables_of, write_tables
        from cluster.runs.model_card import write_cards
        from cluster.runs.negative_tables import write_guarded, write_shown

        collections = {each.name: artifacts.collection(each.config) for each in self.runs}
        tables = tables_of(self.storage, self.runs, collections, self.errors, self.out_of_time, self.stopped)
        failed = write_tables(self.storage, tables)
        for planned in self.runs:
            if planned.name in self.stopped:
                run_store(self.storage, [planned], artifacts.provenance).state(planned.name).delete()
        write_guarded(self.storage, self.runs, artifacts)
        write_cards(self.storage, self.runs, collections)
        write_shown(self.storage, self.runs, artifacts)
        results = StudyResults.of_tables(self.storage, tables)
        report_study(self.storage, console, self.baseline, self.factors, results=results)
        return failed

    def renew_apart(self) -> None:
        """`renew`, in a process of its own."""
        in_process(f"{__name__}:_renew", {"end": self})

    def finalize_apart(self, console: Console) -> int:
        """`finalize`, in a process of its own, which makes or finds by itself what it needs."""
        look = {"width": console.width, "force_terminal": console.is_terminal, "color_system": console.color_system}
        failed, printed = in_process(f"{__name__}:_finalize", {"end": self, "look": look})
        console.print(Text.from_ansi(printed), end="", soft_wrap=True)
        return int(failed)


def _renew(end: StudyEnd) -> None:
    from cluster.runs.artifacts import Artifacts

    end.renew(Artifacts())


def _finalize(end: StudyEnd, look: Mapping[str, Any]) -> tuple[int, str]:
    """How many runs have failed, and what was printed."""
    from cluster.runs.artifacts import Artifacts

    said = io.StringIO()
    failed = end.finalize(Artifacts(), Console(file=said, highlight=False, **look))
    return failed, said.getvalue()
