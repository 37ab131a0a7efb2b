"""Logs what Ray Tune reports of trials."""

from __future__ import annotations

from typing import Any

from ray.tune import Callback

from cluster.output.event_log import EventLog, reason
from cluster.output.run_log import RunLog

STEP = "epoch"
"""Key of a trial's reports that says how far it is, whatever it counts."""


class TrialLog(Callback):
    """Writes down what Ray Tune tells of trials.

    Args:
        events: of the study.
        unit: what a trial counts as it goes on.
    """

    def __init__(self, events: EventLog, unit: str = "epoch") -> None:
        self.log = RunLog(events, unit)

    def __reduce__(self) -> tuple[type[Callback], tuple[()]]:
        # Tune pickles its callbacks to restore an experiment; ours begin anew with the study.
        return (Callback, ())

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.log.started(_name(trial))

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        self.log.says(_name(trial), result.get("notes", ()))
        if STEP in result:
            self.log.reached(_name(trial), step_of(result), result.get("numbers", {}))

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.log.lost(_name(trial), _why(trial))

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.log.failed(_name(trial), _why(trial))

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.log.ended(_name(trial), (trial.last_result or {}).get("best"))


def step_of(result: dict[str, Any]) -> int:
    """How far a trial is, over all of its folds."""
    return int(result.get("fold", 0) * result["max_epochs"] + result[STEP])


def _name(trial: Any) -> str:
    return str(trial.config["run"]["name"])


def _why(trial: Any) -> str:
    """What went wrong, in a line; Ray says much of a process that is gone."""
    return str(getattr(trial, "why", "") or reason(trial.get_error() or ""))[:300]
