"""Tells the metrics how many trials are in which state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ray.tune import Callback

from cluster.output.throttle import Throttle
from cluster.telemetry.metrics import EVERY, record

if TYPE_CHECKING:
    from cluster.tune.live_table import LiveTable


class TrialStates(Callback):
    """How many trials wait, run, are done and have failed, every few seconds.

    Args:
        table: that keeps count; it hears from Tune before this does.
        study: its name.
        every: seconds.
    """

    def __init__(self, table: LiveTable, study: str, every: float = EVERY) -> None:
        self.table, self.tags, self._throttle, self._retried = table, {"study": study}, Throttle(every), table.retried

    def __reduce__(self) -> tuple[type[Callback], tuple[()]]:
        # As of the table: Tune pickles its callbacks to restore an experiment, and these numbers are of now.
        return (Callback, ())

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        if self._throttle.due():
            self.tell()

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        self.tell()

    def tell(self) -> None:
        """Tell it now."""
        for state, count in self.table.states.items():
            record("pyrite_study_trials", count, {**self.tags, "state": state})
        record("pyrite_study_retries_total", self.table.retried - self._retried, self.tags)
        self._retried = self.table.retried
