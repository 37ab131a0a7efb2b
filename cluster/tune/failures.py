"""Retries trials whose process or machine is lost, whatever `retries` says: it is not their fault."""

from __future__ import annotations

import logging
from typing import Any

from ray.exceptions import RayTaskError
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler

from cluster.lost_process import MAX_FAILURES_WITHOUT_PROGRESS, is_loss
from cluster.output.event_log import reason
from cluster.output.storage import Unwritable
from cluster.tune.oom_backoff import killed_for_memory
from cluster.tune.trial_log import STEP, step_of
from ranking.errors import BadInput

_log = logging.getLogger(__name__)


class RetryableTrial(Trial):
    """A trial that Tune lets fail once more for each loss, as long as it comes further between them."""

    farthest = -1
    in_vain = 0
    why = ""

    def handle_error(self, exc: Any = None) -> None:
        """Tune counts a failure, and looks at `max_failures` next."""
        before, refused, self.why = self.num_failures, _refusal(exc), reason(exc)
        if killed_for_memory(exc):
            raise exc  # ends the round: the next one has fewer trials at once (`pressure`)
        if isinstance(refused, Unwritable):
            raise refused  # ends the study: whatever still runs or waits could not be kept
        if refused is None:
            _log.error("run %s", self, exc_info=exc)
        super().handle_error(exc)
        if refused is not None:
            self.max_failures = 0  # bad input is as bad the next time
            self.why = str(refused)
        if self.num_failures == before or exc is None or not is_loss(exc):
            return
        last = self.last_result or {}
        reached = step_of(last) if STEP in last else 0
        self.in_vain = 0 if reached > self.farthest else self.in_vain + 1
        self.farthest = max(reached, self.farthest)
        if self.in_vain < MAX_FAILURES_WITHOUT_PROGRESS:  # else the run itself may be what kills its machine
            self.max_failures += 1


class FaultTolerantScheduler(FIFOScheduler):
    """Runs trials in Tune's own order, as `RetryableTrial`: only errors of a run itself count against its retries."""

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        """Tune makes its trials itself; here each of them comes by before it starts."""
        trial.__class__ = RetryableTrial


def _refusal(error: BaseException | None) -> BadInput | None:
    """The bad input that a trial has met, if that is what ended it."""
    while isinstance(error, RayTaskError) and isinstance(error.cause, BaseException):
        error = error.cause
    return error if isinstance(error, BadInput) else None
