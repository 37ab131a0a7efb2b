"""Retries trials of Ray Tune whose process or machine is lost; one that was killed for memory gets more of a machine.

An error of a body is caught in its process (`pyrite.cluster.executors.tune.attempt`). What Tune sees failing is a loss.
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

from pyrite.cluster.executors.lost_process import KILLED, cause_of, is_draining, is_loss, killed_for_memory
from pyrite.cluster.executors.task import STEP, VALUE, Scheduler, TaskLost, step_of
from pyrite.cluster.limits import TASK_RESTARTS
from pyrite.cluster.output.event_log import reason

_log = logging.getLogger(__name__)
REMEDY = "give it more memory, or make it smaller: training.batch_size, ranker.max_document, scale"


class RetryableTrial(Trial):
    """A trial that Tune lets fail once more per loss, as long as it makes progress between losses."""

    reached = -1
    without_progress = 0
    reason: Exception | None = None
    moves = False
    larger: PlacementGroupFactory | None = None

    def handle_error(self, exc: Any = None) -> None:
        """Count a failure. Tune looks at `max_failures` next."""
        failures, self.larger = self.num_failures, None
        self.reason, self.moves = TaskLost(reason(exc)), is_draining(exc)
        super().handle_error(exc)
        if self.moves:
            self.reason = TaskLost(str(cause_of(exc)))  # Tune counts no failure if a machine is taken away on notice
            return
        lost = exc is not None and is_loss(exc)
        if not lost:
            _log.error("run %s", self, exc_info=exc)
        if self.num_failures == failures or not lost:
            return
        if killed_for_memory(exc):
            requested: Any = self.placement_group_factory
            self.larger = more_of_a_machine(requested)
            if self.larger is None:
                self.reason = TaskLost(f"{KILLED} although it had a machine for itself", remedy=REMEDY)
            else:
                self.reason = TaskLost(KILLED)
                self.max_failures += 1
            return
        step = step_of(self.last_result or {})
        self.without_progress = 0 if step > self.reached else self.without_progress + 1
        self.reached = max(step, self.reached)
        if self.without_progress < TASK_RESTARTS:  # otherwise the task itself may be what ends its process
            self.max_failures += 1


class FaultTolerantScheduler(FIFOScheduler):
    """Runs trials in Tune's order, as `RetryableTrial`, and stops those that a search's scheduler stops."""

    def __init__(self, search: Scheduler | None = None) -> None:
        super().__init__()
        self.search = search or Scheduler()
        self.stopped: set[str] = set()
        self.errors: dict[str, Exception] = {}
        self.results: dict[str, Mapping[str, Any]] = {}
        self._trials: dict[str, Trial] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune pickles its scheduler to restore an experiment; ours are planned again instead

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        """Turn the trial into ours. Tune makes its trials itself, and each comes by here before it starts."""
        trial.__class__ = RetryableTrial
        self._trials[trial.config["run"]["name"]] = trial

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Return what the search decides. If it can't yet, the trial waits and keeps its process."""
        if STEP not in result:
            return str(TrialScheduler.CONTINUE)
        name = trial.config["run"]["name"]
        answers = self.search.reached(name, step_of(result), result[VALUE])
        answer = answers.pop(name, None)
        self._carry_out(tune_controller, answers)
        if answer is None:
            return str(TrialScheduler.NOOP)
        return self._decision(name, answer)

    def on_trial_complete(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> None:
        """Let the trials that waited for it continue."""
        self.results[trial.trial_id] = trial.last_result or {}
        self._over(tune_controller, trial)

    def on_trial_remove(self, tune_controller: Any, trial: Trial) -> None:
        """It ends before it has begun."""
        self._over(tune_controller, trial)

    def on_trial_error(self, tune_controller: Any, trial: Any) -> None:
        """Give a trial that is run again what it takes now. Called between its loss and its place in the queue."""
        self.errors[trial.trial_id] = trial.reason
        if trial.larger is not None and trial.status != Trial.RUNNING:
            trial.update_resources(trial.larger)
        if trial.status == Trial.RUNNING:  # it is not run again
            self._over(tune_controller, trial)
            return
        # It may need the place of a trial that waits for it.
        self.search.let_go(trial.config["run"]["name"])
        for name in self.search.waiting_behind(trial.config["run"]["name"]):
            self.search.let_go(name)
            tune_controller.pause_trial(self._trials[name], should_checkpoint=False)

    def _over(self, tune_controller: Any, trial: Trial) -> None:
        self._carry_out(tune_controller, self.search.ended(trial.config["run"]["name"]))

    def _carry_out(self, tune_controller: Any, answers: Mapping[str, bool]) -> None:
        """Let trials that have waited continue, or stop them."""
        controller = getattr(tune_controller, "_tune_controller", tune_controller)
        for name, continues in answers.items():
            if self._trials[name].status == Trial.RUNNING:
                controller._execute_action(self._trials[name], self._decision(name, continues))

    def _decision(self, name: str, continues: bool) -> str:
        if not continues:
            self.stopped.add(name)
        return str(TrialScheduler.CONTINUE if continues else TrialScheduler.STOP)


def more_of_a_machine(requested: PlacementGroupFactory) -> PlacementGroupFactory | None:
    """Return what to try after a kill for memory; None if the trial had the largest machine for itself.

    It is twice the memory that the trial reserves or, if it reserves none, twice its share of a machine. With twice the
    cores one neighbour fewer runs on the machine while this trial runs. All others stay as they are.
    """
    head, *rest = requested.bundles
    names = ["memory"] if "memory" in head else ["CPU", "GPU"]
    candidates = []
    for node in (node["Resources"] for node in ray.nodes() if node["Alive"]):
        if all(node.get(name, 0) >= amount for name, amount in head.items()):
            doubled = {name: min(2 * head[name], node[name]) for name in names if head.get(name)}
            if doubled.get("GPU", 0) > 1:
                doubled["GPU"] = math.floor(doubled["GPU"])  # Ray shares one GPU out, but no part of several
            candidates.append(doubled)
    largest = max(candidates, key=lambda doubled: tuple(doubled.values()), default={})
    if head | largest == head:
        return None
    return PlacementGroupFactory([head | largest, *rest], strategy=requested.strategy)


class ActorManager(RayActorManager):
    """Tune's manager, which would end the whole experiment over a loss that is no `RayActorError`."""

    def _actor_task_failed(self, tracked_actor_task: Any, exception: Exception) -> None:
        if is_loss(exception) and not isinstance(exception, RayActorError | RayTaskError):
            exception = RayActorError(error_msg=f"{type(exception).__name__}: {exception}")
        super()._actor_task_failed(tracked_actor_task, exception)


tune_controller.RayActorManager = ActorManager  # type: ignore[misc]  # Tune offers no other place to say so
