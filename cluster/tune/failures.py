"""Retries trials whose process or machine is lost, and stops those of a search; one killed for memory gets more.

What a run raises itself is caught in its own process (`cluster.tune.attempts`): what Tune sees failing is a loss.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any

import ray
from ray.air.execution._internal import RayActorManager
from ray.exceptions import RayActorError, RayTaskError
from ray.tune import PlacementGroupFactory
from ray.tune.execution import tune_controller
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler

from cluster.executors.drain import is_draining
from cluster.executors.lost_process import MAX_FAILURES_WITHOUT_PROGRESS, cause_of, is_loss, killed_for_memory
from cluster.output.event_log import reason
from cluster.tune.progress import STEP, reached_by
from cluster.tune.search_scheduler import SearchScheduler

_log = logging.getLogger(__name__)
REMEDY = "give it more memory, or make it smaller: training.batch_size, ranker.preset, scale"


class RetryableTrial(Trial):
    """A trial that Tune lets fail once more for each loss, as long as it comes further between them."""

    farthest = -1
    in_vain = 0
    why = ""
    moves = False
    larger: PlacementGroupFactory | None = None

    def handle_error(self, exc: Any = None) -> None:
        """Tune counts a failure, and looks at `max_failures` next."""
        before, self.why, self.larger = self.num_failures, reason(exc), None
        self.moves = is_draining(exc)
        super().handle_error(exc)
        if self.moves:
            self.why = str(cause_of(exc))  # Tune counts no failure where a machine is taken away on notice
            return
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
    """Runs trials in Tune's own order, as `RetryableTrial`, and stops those of a search that its scheduler stops.

    Args:
        search: the scheduler of a search.
    """

    def __init__(self, search: SearchScheduler | None = None) -> None:
        super().__init__()
        self.search = search
        self._trials: dict[str, Trial] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune pickles its scheduler to restore an experiment; a study that is resumed is planned again

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        """Tune makes its trials itself; here each of them comes by before it starts."""
        trial.__class__ = RetryableTrial
        if self.search is not None:
            self._trials[trial.config["run"]["name"]] = trial

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Where the search has not decided yet, the trial waits, and keeps its process."""
        if self.search is None or STEP not in result:
            return str(TrialScheduler.CONTINUE)
        name = trial.config["run"]["name"]
        answers = self.search.reached(name, reached_by(result), result["validation"])
        own = answers.pop(name, None)
        self._carry_out(tune_controller, answers)
        if own is None:
            return str(TrialScheduler.NOOP)
        return str(TrialScheduler.CONTINUE if own else TrialScheduler.STOP)

    def on_trial_complete(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> None:
        """Others may have waited for it."""
        self._over(tune_controller, trial)

    def on_trial_remove(self, tune_controller: Any, trial: Trial) -> None:
        """It ends before it has begun."""
        self._over(tune_controller, trial)

    def on_trial_error(self, tune_controller: Any, trial: Any) -> None:
        """Called between the loss of a trial and its place in the queue, where what it takes may change."""
        if trial.larger is not None and trial.status != Trial.RUNNING:
            trial.update_resources(trial.larger)
        if self.search is None:
            return
        if trial.status == Trial.RUNNING:  # it is not tried again
            self._over(tune_controller, trial)
            return
        # It may need the place of one that waits for it.
        self.search.let_go(trial.config["run"]["name"])
        for name in self.search.waiting_behind(trial.config["run"]["name"]):
            self.search.let_go(name)
            tune_controller.pause_trial(self._trials[name], should_checkpoint=False)

    def _over(self, tune_controller: Any, trial: Trial) -> None:
        if self.search is not None:
            self._carry_out(tune_controller, self.search.ended(trial.config["run"]["name"]))

    def _carry_out(self, tune_controller: Any, answers: Mapping[str, bool]) -> None:
        """Let trials that have waited go on, or stop them."""
        controller = getattr(tune_controller, "_tune_controller", tune_controller)
        for name, goes_on in answers.items():
            if self._trials[name].status == Trial.RUNNING:
                decision = TrialScheduler.CONTINUE if goes_on else TrialScheduler.STOP
                controller._execute_action(self._trials[name], decision)


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
