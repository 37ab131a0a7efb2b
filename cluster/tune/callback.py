"""Tells the table on screen, the log, trackers and metrics what Ray Tune reports of trials."""

from __future__ import annotations

import logging
from typing import Any

from ray.tune import Callback, Stopper

from cluster.output.run_log import RunLog
from cluster.output.storage import Unwritable
from cluster.output.throttle import Throttle
from cluster.telemetry.metrics import EVERY, record
from cluster.telemetry.tracking.tracker import Run
from cluster.telemetry.tracking.tracking import Tracking
from cluster.tune.live_table import LiveTable
from cluster.tune.progress import AGAIN, FAILED, STEP, UNWRITABLE, reached_by

_log = logging.getLogger(__name__)


class TrialCallback(Callback):
    """Hears of trials from Ray Tune: the trials themselves do nothing for it.

    Args:
        table: on screen, which keeps count.
        study: its name in the metrics.
        tracking: of the study, with its log; None: neither.
        every: seconds between two looks at how many trials are in which state.
    """

    def __init__(self, table: LiveTable, study: str, tracking: Tracking | None = None, every: float = EVERY) -> None:
        self.table, self.tracking, self.tags = table, tracking, {"study": study}
        self.log = RunLog(tracking.events, table.unit) if tracking else None
        self.errors: dict[str, str] = {}
        self.unwritable: Unwritable | None = None
        self._throttle, self._retried = Throttle(every), table.retried

    def __reduce__(self) -> tuple[type[Callback], tuple[()]]:
        # Tune pickles its callbacks to restore an experiment; a screen, a thread and numbers of now are no part of one.
        return (Callback, ())

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        run = trial.config["run"]
        self.table.start(run["name"])
        if self.log:
            self.log.started(run["name"])
        if self.tracking:
            self.tracking.begin(Run(run["name"], run.get("parameters", {}), run.get("overrides", "")))

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        name = trial.config["run"]["name"]
        if self.log:
            self.log.says(name, result.get("notes", ()))
        if "traceback" in result:
            _log.error("run %s\n%s", name, result["traceback"])
        if AGAIN in result:
            self._again(name, result[AGAIN])
        if STEP in result:
            self.table.progress(name, result)
            if self.log:
                self.log.reached(name, reached_by(result), result.get("numbers", {}))
            if self.tracking:
                self.tracking.log(name, reached_by(result), result.get("numbers", {}))

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._again(trial.config["run"]["name"], trial.why)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._failed(trial.config["run"]["name"], trial.why)

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        name, last = trial.config["run"]["name"], trial.last_result or {}
        if FAILED in last:
            if UNWRITABLE in last:
                self.unwritable = Unwritable(*last[UNWRITABLE])
            self._failed(name, last[FAILED])
            return
        self.table.end(name, last.get("best", 0.0))
        if self.log:
            self.log.ended(name, last.get("best"))
        if self.tracking:
            final = last.get("numbers", {}) | ({"best": last["best"]} if "best" in last else {})
            self.tracking.end(name, "done", final)

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        if self._throttle.due():
            self.tell_states()

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        self.tell_states()

    def tell_states(self) -> None:
        """Tell the metrics how many trials wait, run, are done and have failed."""
        for state, count in self.table.states.items():
            record("pyrite_study_trials", count, {**self.tags, "state": state})
        record("pyrite_study_retries_total", self.table.retried - self._retried, self.tags)
        self._retried = self.table.retried

    def _again(self, name: str, why: str) -> None:
        self.table.retried += 1
        if self.log:
            self.log.lost(name, why[:300])

    def _failed(self, name: str, why: str) -> None:
        self.errors[name] = why
        self.table.fail(name)
        if self.log:
            self.log.failed(name, why[:300])
        if self.tracking:
            self.tracking.end(name, "failed", {})


class StopUnwritable(Stopper):
    """Ends all trials once one could not write: whatever the others compute could not be kept either."""

    def __init__(self, callback: TrialCallback) -> None:
        self.callback = callback

    def __reduce__(self) -> tuple[type[Stopper], tuple[()]]:
        return (Stopper, ())  # as of the callback

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        return self.callback.unwritable is not None
