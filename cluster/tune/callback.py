"""Passes on what Ray Tune reports of trials."""

from __future__ import annotations

from typing import Any

from ray.tune import Callback, Stopper

from cluster.tune.run_watch import RunWatch


class TrialCallback(Callback):
    """Hears of trials from Ray Tune.

    Args:
        watch: told of them.
    """

    def __init__(self, watch: RunWatch) -> None:
        self.watch = watch

    def __reduce__(self) -> tuple[type[Callback], tuple[()]]:
        # Tune pickles its callbacks to restore an experiment; a screen, a thread and numbers of now are no part of one.
        return (Callback, ())

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.watch.started(trial.config["run"])

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        self.watch.told(trial.config["run"]["name"], result)

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        (self.watch.moved if trial.moves else self.watch.again)(trial.config["run"]["name"], trial.why)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.watch.failed(trial.config["run"]["name"], trial.why)

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.watch.ended(trial.config["run"]["name"], trial.last_result or {})

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        self.watch.look()

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        self.watch.tell_states()


class StopUnwritable(Stopper):
    """Ends all trials once one could not write: whatever the others compute could not be kept either."""

    def __init__(self, watch: RunWatch) -> None:
        self.watch = watch

    def __reduce__(self) -> tuple[type[Stopper], tuple[()]]:
        return (Stopper, ())  # as of the callback

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        return self.watch.unwritable is not None
