"""Tells the table on screen, the log, trackers and metrics what becomes of runs."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from cluster.output.provenance import content_digest
from cluster.output.run_log import RunLog
from cluster.output.storage import Unwritable
from cluster.output.throttle import Throttle
from cluster.telemetry.metrics import EVERY, record
from cluster.telemetry.tracking.tracker import TrackedRun
from cluster.telemetry.tracking.tracking import Tracking
from cluster.tune.live_table import LiveTable
from cluster.tune.progress import AGAIN, FAILED, STEP, UNWRITABLE, reached_by
from cluster.tune.search_scheduler import SearchScheduler

_log = logging.getLogger(__name__)


class RunWatch:
    """Hears what runs report: they themselves do nothing for table, log, trackers and metrics.

    Args:
        table: on screen, which keeps count.
        study: its name in the metrics.
        tracking: of the study, with its log; None: neither.
        every: seconds between two looks at how many runs are in which state.
        scheduler: of a search, which may have stopped a run that ends.
    """

    def __init__(
        self,
        table: LiveTable,
        study: str,
        tracking: Tracking | None = None,
        every: float = EVERY,
        scheduler: SearchScheduler | None = None,
    ) -> None:
        self.table, self.tracking, self.tags = table, tracking, {"study": study}
        self.scheduler, self._made_of = scheduler, dict[str, Mapping[str, str]]()
        self.log = RunLog(tracking.events, table.unit) if tracking else None
        self.errors: dict[str, str] = {}
        self.unwritable: Unwritable | None = None
        self._throttle, self._retried = Throttle(every), table.retried

    def started(self, run: Mapping[str, Any]) -> None:
        """A run starts, for the first time or again."""
        self.table.start(run["name"])
        self._made_of[run["name"]] = run.get("made_of", {})
        if self.log:
            self.log.started(run["name"])
        if self.tracking:
            self.tracking.begin(TrackedRun(run["name"], run.get("parameters", {}), run.get("overrides", "")))

    def told(self, name: str, result: Mapping[str, Any]) -> None:
        """A run reports (`cluster.tune.progress`)."""
        if self.log:
            self.log.says(name, result.get("notes", ()))
        if "traceback" in result:
            _log.error("run %s\n%s", name, result["traceback"])
        if AGAIN in result:
            self.again(name, result[AGAIN])
        if STEP in result:
            self.table.progress(name, result)
            if self.log:
                self.log.reached(name, reached_by(result), result.get("numbers", {}))
            if self.tracking:
                self.tracking.log(name, reached_by(result), result.get("numbers", {}))

    def again(self, name: str, why: str) -> None:
        """A run was lost, and is tried again."""
        self.table.retried += 1
        if self.log:
            self.log.lost(name, why[:300])

    def moved(self, name: str, why: str) -> None:
        """A run goes on from its state on another machine: nothing was lost."""
        if self.log:
            self.log.moved(name, why)

    def failed(self, name: str, why: str) -> None:
        """A run has failed for good."""
        self.errors[name] = why
        self.table.fail(name)
        if self.log:
            self.log.failed(name, why[:300])
        if self.tracking:
            self.tracking.end(name, "failed", {})

    def ended(self, name: str, last: Mapping[str, Any]) -> None:
        """A run's body has ended: well, unless its last report says otherwise."""
        if FAILED in last:
            if UNWRITABLE in last:
                self.unwritable = Unwritable(*last[UNWRITABLE])
            self.failed(name, last[FAILED])
            return
        stop = self.scheduler.stopped.get(name) if self.scheduler else None
        if stop is not None:
            self.table.stop(name)
            if self.log:
                self.log.stopped(name, stop.at, stop.best, content_digest(self._made_of[name]))
            if self.tracking:
                self.tracking.end(name, "stopped", {"best": stop.best})
            return
        self.table.end(name, last.get("best", 0.0))
        if self.log:
            self.log.ended(name, last.get("best"))
        if self.tracking:
            final = last.get("numbers", {}) | ({"best": last["best"]} if "best" in last else {})
            self.tracking.end(name, "done", final)

    def look(self) -> None:
        """Tell the states, where that was not just done."""
        if self._throttle.due():
            self.tell_states()

    def tell_states(self) -> None:
        """Tell the metrics how many runs wait, run, are done, have failed and were stopped."""
        for state, count in self.table.states.items():
            record("pyrite_study_trials", count, {**self.tags, "state": state})
        record("pyrite_study_retries_total", self.table.retried - self._retried, self.tags)
        self._retried = self.table.retried
