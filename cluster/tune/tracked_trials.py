"""Tells experiment trackers what Ray Tune reports of trials."""

from __future__ import annotations

from typing import Any

from ray.tune import Callback

from cluster.telemetry.tracking.tracker import Run
from cluster.telemetry.tracking.tracking import Tracking
from cluster.tune.trial_log import STEP, step_of


class TrackedTrials(Callback):
    """Tells trackers of trials what Tune tells the study's process anyway: the trials do nothing for it.

    Args:
        tracking: of the study.
    """

    def __init__(self, tracking: Tracking) -> None:
        self.tracking = tracking

    def __reduce__(self) -> tuple[type[Callback], tuple[()]]:
        # As of the table: Tune pickles its callbacks to restore an experiment, and a thread is no part of one.
        return (Callback, ())

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        run = trial.config["run"]
        self.tracking.begin(Run(run["name"], run.get("parameters", {}), run.get("overrides", "")))

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        if STEP in result:
            self.tracking.log(trial.config["run"]["name"], step_of(result), result.get("numbers", {}))

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        last = trial.last_result or {}
        final = last.get("numbers", {}) | ({"best": last["best"]} if "best" in last else {})
        self.tracking.end(trial.config["run"]["name"], "done", final)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.tracking.end(trial.config["run"]["name"], "failed", {})
