"""Decides which trials of Ray Tune run again after a loss, with how much of a machine, and which are given up.

Tune itself runs a lost trial again (`FailureConfig(max_failures=-1)`), and calls its scheduler before that. An error of
a body is caught in its process (`pyrite.cluster.executors.tune.attempt`), so what Tune sees failing is a loss.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ray import cloudpickle
from ray.tune import PlacementGroupFactory
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler

from pyrite.cluster.executors.lost_process import KILLED, cause_of, is_draining, is_loss, killed_for_memory
from pyrite.cluster.executors.nodes import alive_nodes
from pyrite.cluster.executors.resources import FIELDS, Resources, fits
from pyrite.cluster.executors.task import STEP, Attempts, TaskLost, step_of
from pyrite.cluster.output.event_log import reason
from pyrite.ranking.errors import BadInput

_log = logging.getLogger(__name__)
REMEDY = "give it more memory, or make it smaller: training.batch_size, ranker.preset, scale"


def name_of(trial: Any) -> str:
    """Return the key of the task that a trial runs."""
    return str(trial.config["run"]["name"])


def placement_of(resources: Resources) -> PlacementGroupFactory:
    """Return what a trial takes of the cluster."""
    return PlacementGroupFactory([resources.bundle(), *map(dict, resources.beside)], strategy=resources.strategy)


class Stopping(FIFOScheduler):
    """Stops trials early by what they report. This one lets all continue.

    Attributes:
        refused: what ended all trials, if the scheduler can't be used.
    """

    def __init__(self) -> None:
        super().__init__()
        self.refused: BadInput | None = None

    def ends(self, key: str, trial_id: str, result: Mapping[str, Any]) -> bool:
        """Return whether a user's `ray.tune.Stopper` ends a task."""
        return False


@dataclass(frozen=True)
class Loss:
    """A failure of Tune: its reason, and whether the machine is only to be taken away."""

    reason: Exception
    moves: bool = False


class Retries(FIFOScheduler):
    """Counts the losses of trials, and asks `stopping` everything else.

    Attributes:
        losses: the last loss of each task, by key.
        given_up: errors of the tasks that do not run again, by key.
        larger: what tasks take after a kill for memory, by key.
        results: what trials reported last, by trial id, until they are read.
    """

    def __init__(self, stopping: Stopping | None = None) -> None:
        super().__init__()
        self.stopping, self.attempts = stopping or Stopping(), Attempts(0)
        self.losses: dict[str, Loss] = {}
        self.given_up: dict[str, Exception] = {}
        self.larger: dict[str, Resources] = {}
        self.results: dict[str, Mapping[str, Any]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune pickles its scheduler to restore an experiment; ours are planned again instead

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        """Pass it on."""
        self.stopping.on_trial_add(tune_controller, trial)

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Return what the search decides about a step; other reports decide nothing."""
        if STEP not in result:
            return str(self.CONTINUE)
        self.attempts.reached(name_of(trial), step_of(result))
        return str(self.stopping.on_trial_result(tune_controller, trial, result))

    def on_trial_complete(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> None:
        """Keep what it reported last."""
        self.results[trial.trial_id] = trial.last_result or {}
        self.stopping.on_trial_complete(tune_controller, trial, result)

    def on_trial_remove(self, tune_controller: Any, trial: Trial) -> None:
        """Pass it on."""
        self.stopping.on_trial_remove(tune_controller, trial)

    def on_trial_error(self, tune_controller: Any, trial: Trial) -> None:
        """Count a loss. Called between the loss of a trial and its place in the queue."""
        name = name_of(trial)
        before = self.larger.get(name)
        self.lost(name, _error_of(trial), before or _resources_of(trial))
        if (larger := self.larger.get(name)) is not None and larger != before:
            trial.update_resources(placement_of(larger))
        self.stopping.on_trial_error(tune_controller, trial)

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """Stop the trials that are given up; of the others, return the search's choice."""
        if self.given_up:
            for trial in [each for each in tune_controller.get_trials() if each.status == Trial.PENDING]:
                if name_of(trial) in self.given_up:
                    tune_controller.stop_trial(trial)
        return self.stopping.choose_trial_to_run(tune_controller)

    def lost(self, key: str, error: Exception, resources: Resources) -> None:
        """Decide what a task that took some resources does after a loss: it runs again, with more, or is given up."""
        if is_draining(error):
            self.losses[key] = Loss(TaskLost(str(cause_of(error))), moves=True)
        elif killed_for_memory(error):
            self.losses[key] = Loss(TaskLost(KILLED))
            if (larger := more_of_a_machine(resources)) is not None:
                self.larger[key] = larger
            else:
                self.given_up[key] = TaskLost(f"{KILLED} although it had a machine for itself", remedy=REMEDY)
        else:
            if not is_loss(error):
                _log.error("run %s", key, exc_info=error)
            self.losses[key] = Loss(TaskLost(reason(error)))
            if (final := self.attempts.after_loss(key, reason(error))) is not None:
                self.given_up[key] = final


def _error_of(trial: Trial) -> Exception:
    """Return what a trial failed with last."""
    file = trial.pickled_error_file
    if file is None:  # no error of Ray's
        return RuntimeError(Path(trial.error_file).read_text("utf-8") if trial.error_file else "no reason is known")
    error: Exception = cloudpickle.loads(Path(file).read_bytes())
    return error


def _resources_of(trial: Trial) -> Resources:
    task, _ = cloudpickle.loads(trial.config["task"])
    resources: Resources = task.resources
    return resources


def _shared(name: str, amount: float) -> float:
    """Return an amount that Ray gives out: shares of one GPU, but no part of several."""
    return math.floor(amount) if name == "GPU" and amount > 1 else amount


def more_of_a_machine(requested: Resources) -> Resources | None:
    """Return what to try after a kill for memory; None if the task had the largest machine for itself.

    It is twice the memory that the task reserves or, if it reserves none, twice its share of a machine. With twice the
    cores one neighbour fewer runs on the machine while this task runs. All others stay as they are.
    """
    own = requested.bundle()
    names = ["memory"] if requested.memory else ["CPU", "GPU"]
    nodes = [node["Resources"] for node in alive_nodes() if fits(own, node["Resources"])]
    candidates = [
        {name: _shared(name, min(2 * own[name], node[name])) for name in names if own[name]} for node in nodes
    ]
    largest = max(candidates, key=lambda doubled: tuple(doubled.values()), default={})
    if own | largest == own:
        return None
    larger: dict[str, Any] = {FIELDS[name]: amount for name, amount in largest.items()}
    return replace(requested, **larger)
