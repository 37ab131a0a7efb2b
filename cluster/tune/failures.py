"""Retries trials whose process or machine is lost; one that is killed for memory gets more of a machine.

What a run raises itself is caught in its own process (`cluster.tune.attempts`): what Tune sees failing is a loss.
"""

from __future__ import annotations

import logging
import math
from typing import Any

import ray
from ray.air.execution._internal import RayActorManager
from ray.exceptions import RayActorError, RayTaskError
from ray.tune import PlacementGroupFactory
from ray.tune.execution import tune_controller
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler

from cluster.lost_process import MAX_FAILURES_WITHOUT_PROGRESS, is_loss, killed_for_memory
from cluster.output.event_log import reason
from cluster.tune.progress import reached_by

_log = logging.getLogger(__name__)
REMEDY = "give it more memory, or make it smaller: training.batch_size, ranker.preset, scale"


class RetryableTrial(Trial):
    """A trial that Tune lets fail once more for each loss, as long as it comes further between them."""

    farthest = -1
    in_vain = 0
    why = ""
    larger: PlacementGroupFactory | None = None

    def handle_error(self, exc: Any = None) -> None:
        """Tune counts a failure, and looks at `max_failures` next."""
        before, self.why, self.larger = self.num_failures, reason(exc), None
        super().handle_error(exc)
        lost = exc is not None and is_loss(exc)
        if not lost:
            _log.error("run %s", self, exc_info=exc)
        if self.num_failures == before or not lost:
            return
        if killed_for_memory(exc):
            asked: Any = self.placement_group_factory
            self.larger = more_of_a_machine(asked)
            self.why = "killed by Ray's memory monitor"
            if self.larger is None:
                self.why += f" although it had a machine for itself; {REMEDY}"
            else:
                self.max_failures += 1
            return
        reached = reached_by(self.last_result or {})
        self.in_vain = 0 if reached > self.farthest else self.in_vain + 1
        self.farthest = max(reached, self.farthest)
        if self.in_vain < MAX_FAILURES_WITHOUT_PROGRESS:  # else the run itself may be what kills its machine
            self.max_failures += 1


class FaultTolerantScheduler(FIFOScheduler):
    """Runs trials in Tune's own order, as `RetryableTrial`."""

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        """Tune makes its trials itself; here each of them comes by before it starts."""
        trial.__class__ = RetryableTrial

    def on_trial_error(self, tune_controller: Any, trial: Any) -> None:
        """Called between the loss of a trial and its place in the queue, where what it takes may change."""
        if trial.larger is not None and trial.status != Trial.RUNNING:
            trial.update_resources(trial.larger)


def more_of_a_machine(asked: PlacementGroupFactory) -> PlacementGroupFactory | None:
    """Twice the memory that a trial reserves or, where it reserves none, twice its share of a machine.

    With twice the cores one neighbour less runs beside it, for as long as it runs: all others stay as they are.

    Args:
        asked: what it was killed with.

    Returns:
        What to try next; None where it had the largest machine for itself.
    """
    own, *rest = asked.bundles
    names = ["memory"] if "memory" in own else ["CPU", "GPU"]
    found = []
    for node in (node["Resources"] for node in ray.nodes() if node["Alive"]):
        if all(node.get(name, 0) >= amount for name, amount in own.items()):
            doubled = {name: min(2 * own[name], node[name]) for name in names if own.get(name)}
            if doubled.get("GPU", 0) > 1:
                doubled["GPU"] = math.floor(doubled["GPU"])  # Ray shares out one of them, and no share of several
            found.append(doubled)
    most = max(found, key=lambda doubled: tuple(doubled.values()), default={})
    if own | most == own:
        return None
    return PlacementGroupFactory([own | most, *rest], strategy=asked.strategy)


class ActorManager(RayActorManager):
    """Tune's own, which ends the whole experiment over a loss that does not come as a `RayActorError`."""

    def _actor_task_failed(self, tracked_actor_task: Any, exception: Exception) -> None:
        if is_loss(exception) and not isinstance(exception, RayActorError | RayTaskError):
            exception = RayActorError(error_msg=f"{type(exception).__name__}: {exception}")
        super()._actor_task_failed(tracked_actor_task, exception)


tune_controller.RayActorManager = ActorManager  # type: ignore[misc]  # Tune offers no other place to say so
