"""Passes what happens to the runs of a study on to the table on screen, the log, trackers and metrics."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Mapping
from functools import partial
from typing import Any

from pyrite.cluster.executors.task import STEP, WITHIN, Done, Task, TaskFailed, Watch, step_of
from pyrite.cluster.executors.waiting import log_wait
from pyrite.cluster.output.event_log import reason
from pyrite.cluster.output.provenance import content_digest
from pyrite.cluster.output.run_log import RunLog
from pyrite.cluster.output.storage import Unwritable
from pyrite.cluster.output.terminal import print_lines
from pyrite.cluster.output.throttle import Throttle
from pyrite.cluster.telemetry.live_table import LiveTable
from pyrite.cluster.telemetry.metrics import EVERY, record
from pyrite.cluster.telemetry.tracking.tracker import TrackedRun
from pyrite.cluster.telemetry.tracking.tracking import Tracking
from pyrite.cluster.telemetry.training_metrics import study_of
from pyrite.ranking.errors import BadInput

_log = logging.getLogger(__name__)
LONGEST_REASON = 300


class RunWatch(Watch):
    """Shows and records runs, which themselves do nothing for table, log, trackers and metrics.

    Args:
        stopped: how far runs were that a search's scheduler has stopped (`pyrite.cluster.runs.outcome.Stop`), by name.
    """

    def __init__(
        self,
        table: LiveTable,
        tracking: Tracking,
        every: float = EVERY,
        stopped: Mapping[str, Any] | None = None,
    ) -> None:
        self.table, self.tracking = table, tracking
        self.stopped = {} if stopped is None else stopped
        self.tags = {"study": study_of(tracking.events.storage.place)}
        self.log = RunLog(tracking.events, table.unit)
        self.errors: dict[str, str] = {}
        """The error of each run that failed for good, by name."""
        self._throttle, self._retried = Throttle(every), table.retried

    def started(self, task: Task) -> None:
        self.table.start(task.key)
        self.log.started(task.key)
        facts = task.facts
        self.tracking.begin(TrackedRun(task.key, facts.get("parameters", {}), facts.get("overrides", "")))

    def progress(self, key: str, report: Mapping[str, Any]) -> None:
        self.log.says(key, report.get("notes", ()))
        if WITHIN in report:
            self.table.within(key, report[WITHIN])
        if STEP in report:
            self.table.progress(key, report)
            self.log.reached(key, step_of(report), report.get("numbers", {}))
            self.tracking.log(key, step_of(report), report.get("numbers", {}))

    def retrying(self, key: str, error: Exception) -> None:
        self.table.retried += 1
        why = reason_of(error)
        _log.warning("%s; run %s starts again", why, key)
        self.log.lost(key, why[:LONGEST_REASON])

    def moved(self, key: str, reason: str) -> None:
        self.log.lost(key, reason, moved=True)

    def ended(self, done: Done) -> None:
        name, result, stop = done.task.key, done.value or {}, self.stopped.get(done.task.key)
        if done.error is not None:
            self.errors[name] = why = reason_of(done.error)
            self.table.end(name, status="failed")
            self.log.failed(name, why[:LONGEST_REASON], self._traceback(name, done.error))
            self.tracking.end(name, "failed", {})
            return
        self.log.says(name, result.get("notes", ()))
        if stop is not None:
            self.table.end(name, status="stopped")
            self.log.stopped(name, stop.at, stop.best, content_digest(done.task.facts.get("made_of", {})))
            self.tracking.end(name, "stopped", {"best": stop.best})
            return
        self.table.end(name, result.get("best", 0.0))
        self.log.ended(name, result.get("best"))
        best = {"best": result["best"]} if "best" in result else {}
        self.tracking.end(name, "done", result.get("numbers", {}) | best)

    @staticmethod
    def _traceback(name: str, error: Exception) -> str | None:
        """Print the traceback of a run that failed; return it instead, for the log, if the user's training failed."""
        if isinstance(error, BadInput):  # the user's to fix
            return None
        lines = "".join(traceback.format_exception(error))
        if isinstance(error, TaskFailed):
            _log.error("run %s: %s; the traceback is in log.jsonl", name, error)
            return lines
        _log.error("run %s\n%s", name, lines)
        return None

    def waits(self, line: str | None) -> None:
        self.table.waits = line or ""
        log_wait(line, partial(print_lines, self.table.console), self.tracking.events)

    def tick(self) -> None:
        if self._throttle.due():
            self.record_states()

    def record_states(self) -> None:
        """Record how many runs wait, run, are done, have failed and were stopped."""
        for state, count in self.table.states.items():
            record("pyrite_study_trials", count, {**self.tags, "state": state})
        record("pyrite_study_retries_total", self.table.retried - self._retried, self.tags)
        self._retried = self.table.retried


def reason_of(error: Exception) -> str:
    """Return an error in one line."""
    return str(error) if isinstance(error, BadInput) else reason(f"{type(error).__name__}: {error}")


def raise_unwritable(done: Done) -> None:
    """Raise the error of a task that could not write: nothing else could be kept either."""
    if isinstance(done.error, Unwritable):
        raise done.error
