"""Stops runs of a search early by Ray Tune's schedulers and stoppers, which decide as results arrive.

What is stopped therefore depends on the order in which runs report, and so on the number of workers. It is the one
thing in a study that does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from ray.tune import Stopper
from ray.tune.schedulers import FIFOScheduler, TrialScheduler

from pyrite.analysis.methods import LABEL
from pyrite.cluster.config.build import as_node, build, locate
from pyrite.cluster.config.override import is_within, without
from pyrite.cluster.config.trust import Trust, check_classes
from pyrite.cluster.executors.hooks import HookErrors
from pyrite.cluster.executors.task import STEP, VALUE, step_of
from pyrite.cluster.executors.tune_schedulers import Stopping, name_of
from pyrite.cluster.lazy import ray
from pyrite.cluster.plan.sweep import Planned
from pyrite.cluster.runs.outcome import Stop
from pyrite.ranking.errors import BadInput, refuse

CHOICES = "choose asha or median"


@dataclass(frozen=True)
class _Stoppable:
    """A run that may be stopped: the scheduler of its search, the length of a fold, and its validation by step."""

    scheduler: TrialScheduler
    max_epochs: int
    curve: dict[int, float]


class TrialStopping(Stopping):
    """One scheduler of Ray Tune per method of a search, so that no method is stopped because of another.

    Args:
        make: builds a scheduler; None builds none, and only `stoppers` decide.
        stoppers: stoppers of Ray Tune, which may stop a run, or keep further ones from starting.
        events: the study's log, which has the runs that earlier commands have stopped, and what runs reached. A
            scheduler knows the runs of this command alone.
        made_of: returns a digest of what a run would be built from now. A run that was built from something else is
            not stopped yet.
    """

    def __init__(
        self,
        make: Callable[[], TrialScheduler] | None,
        stoppers: Sequence[Stopper] = (),
        events: Iterable[Mapping[str, Any]] = (),
        made_of: Callable[[dict[str, Any]], str] = lambda config: "",
    ) -> None:
        super().__init__()
        self.errors = HookErrors()
        self.make, self.stoppers, self.made_of = make or FIFOScheduler, stoppers, made_of
        self.stopped: dict[str, Stop] = {}
        self._curves: dict[str, dict[int, float]] = {}
        self._searches: dict[object, TrialScheduler] = {}
        self._runs: dict[str, _Stoppable] = {}
        for event in events:
            if event["event"] == "run stopped":
                name, at = event["run"], int(event["reached"])
                curve = _until(at, self._curves.get(name, {})) or (float(event["best"]),)
                self.stopped[name] = Stop(at, curve, float(event["best"]), event["made_of"])
            elif event["event"] == "run reached" and VALUE in event.get("numbers", {}):
                reached = self._curves.setdefault(event["run"], {})
                reached[int(event["step"])] = _number(event["numbers"][VALUE])

    def enter(self, runs: Iterable[Planned]) -> None:
        """Add proposals. Runs that no interval is drawn for are compared by seed, and never stopped."""
        for planned in runs:
            name = planned.name
            if not planned.drawn or name in self._runs:
                continue
            before = self.stopped.get(name)
            if before is not None and before.made_of != self.made_of(planned.config):
                del self.stopped[name]
                self._curves.pop(name, None)
            varied = frozenset(key for key in planned.drawn if not is_within(key.rpartition(".")[0], planned.drawn))
            kept = tuple(without(planned.overrides, (*planned.drawn, "seed")))
            method = kept, varied, dict(planned.swept).get(LABEL)  # methods may differ only in what is drawn for them
            if method not in self._searches:
                self._searches[method] = self.make()
                self._searches[method].set_search_properties(VALUE, "max")
            curve = self._curves.setdefault(name, {})
            self._runs[name] = _Stoppable(self._searches[method], planned.config["training"]["max_epochs"], curve)

    def finished(self) -> bool:
        """Return whether a stopper has ended the search, so that no further run starts."""
        return any(self.errors.call(stopper, "stop_all", default=False) for stopper in self.stoppers)

    def ends(self, key: str, trial_id: str, result: Mapping[str, Any]) -> bool:
        if key not in self._runs:
            return False
        asked = [self.errors.call(each, "__call__", trial_id, dict(result), default=False) for each in self.stoppers]
        self._reached(key, result)
        return any(asked) and self._stop(key, step_of(result))

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        """Pass it on to the scheduler of its search."""
        self.errors.call(self._of(trial), "on_trial_add", tune_controller, trial)

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        """Return what the scheduler decides. An epoch of a later fold counts on from those before it."""
        name = name_of(trial)
        if name not in self._runs:
            return str(self.CONTINUE)
        step, value = self._reached(name, result)
        scheduler = self._runs[name].scheduler
        reached = {**result, STEP: step, VALUE: value}
        arguments = (scheduler, "on_trial_result", tune_controller, trial, reached)
        decision = self.errors.call(*arguments, default=self.CONTINUE)
        if decision not in (self.CONTINUE, self.STOP):
            what = f"{type(scheduler).__name__} decides {decision}, and a run can only be stopped or continue"
            self.refused = BadInput(what, "trial_scheduler", CHOICES)
            raise self.refused
        return str(self.STOP if decision == self.STOP and self._stop(name, step) else self.CONTINUE)

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> None:
        """Pass it on to the scheduler of its search."""
        self.errors.call(self._of(trial), "on_trial_complete", tune_controller, trial, result)

    def on_trial_remove(self, tune_controller: Any, trial: Any) -> None:
        """Pass it on to the scheduler of its search."""
        self.errors.call(self._of(trial), "on_trial_remove", tune_controller, trial)

    def on_trial_error(self, tune_controller: Any, trial: Any) -> None:
        """Pass it on to the scheduler of its search."""
        self.errors.call(self._of(trial), "on_trial_error", tune_controller, trial)

    def _of(self, trial: Any) -> TrialScheduler:
        run = self._runs.get(name_of(trial))
        return run.scheduler if run is not None else FIFOScheduler()

    def _reached(self, name: str, result: Mapping[str, Any]) -> tuple[int, float]:
        """Keep what a run reports, and return how far it is and what it has reached there."""
        step, value = step_of(result), _number(result[VALUE])
        self._runs[name].curve[step] = value
        return step, value

    def _stop(self, name: str, step: int) -> bool:
        """Stop a run, unless it has nothing left but to be measured: at its last epoch, or that of a fold."""
        run = self._runs[name]
        if step % run.max_epochs == 0:
            return False
        folds: dict[int, list[float]] = {}
        for at, value in run.curve.items():
            if at <= step:
                folds.setdefault((at - 1) // run.max_epochs, []).append(value)
        best = float(np.mean([max(values) for values in folds.values()]))
        self.stopped[name] = Stop(step, _until(step, run.curve), best)
        return True


def _number(value: float | None) -> float:
    """Return a validation; one that is no number counts as 0."""
    return 0.0 if value is None or value != value else float(value)


def _until(step: int, curve: Mapping[int, float]) -> tuple[float, ...]:
    return tuple(value for at, value in sorted(curve.items()) if at <= step)


def schedulers_of(node: dict[str, Any] | None, trust: Trust) -> Callable[[], TrialScheduler] | None:
    """Return what builds a scheduler of Ray Tune from its options; None if there are none. Others are refused."""
    if node is None:
        return None

    def make() -> TrialScheduler:
        try:
            scheduler: TrialScheduler = build(node, "trial_scheduler", trust=trust)
            return scheduler
        except (ray.tune.error.TuneError, ValueError, AssertionError) as error:  # of its options
            raise BadInput(str(error), "trial_scheduler") from None

    check_classes(node, trust)
    target = locate(node["_target_"])
    refuse(
        not issubclass(target, TrialScheduler),
        "is no scheduler of Ray Tune",
        node["_target_"],
        "subclass ray.tune.schedulers.TrialScheduler",
    )
    what = f"{target.__name__} changes settings of runs, or lets them wait for each other"
    refuse(
        issubclass(target, ray.tune.schedulers.HyperBandScheduler | ray.tune.schedulers.PopulationBasedTraining),
        what,
        "trial_scheduler",
        CHOICES,
    )
    make()
    return make


def built_as(kind: type, nodes: Sequence[Any], key: str, trust: Trust) -> list[Any]:
    """Build objects of a class of Ray Tune from paths of classes or parts with `_target_`; refuse others."""
    built = []
    for node in map(as_node, nodes):
        built.append(build(node, key, trust=trust))
        name = kind.__name__
        refuse(
            not isinstance(built[-1], kind),
            f"is no {name.lower()} of Ray Tune",
            node["_target_"],
            f"subclass ray.tune.{name}",
        )
    return built
