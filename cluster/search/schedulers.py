"""Decides which runs of a search are stopped early, by Ray Tune's schedulers, as if runs had trained one by one.

A scheduler decides by the results that it has seen, and with several workers those arrive in any order. Here each
result is passed to it in a fixed order: a run's result at an epoch, once all runs that were proposed before it have
reached that epoch or have ended. A run that is ahead waits for them. So the same runs are stopped for any number of
workers, and a resumed study passes the results in its log to the scheduler again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyrite.cluster.config.build import as_node, build, locate
from pyrite.cluster.config.durations import seconds_of
from pyrite.cluster.config.override import key_of
from pyrite.cluster.config.trust import Trust, check_classes
from pyrite.cluster.executors.task import Scheduler
from pyrite.cluster.plan.sweep import Planned
from pyrite.cluster.runs.outcome import Stop
from pyrite.ranking.errors import BadInput

METRIC, TIME = "validation", "epoch"
CHOICES = "choose asha, median or hyperband"


@dataclass(eq=False)
class _Run:
    """A run as a scheduler sees it. Ray Tune's schedulers know trials by these names.

    Args:
        search: the scheduler, and all runs that it compares, in their order.
        pending, passed: (epoch, validation) that the scheduler has not seen yet, and that it has.
        held: whether it waits for an answer.
    """

    trial_id: str
    config: dict[str, Any]
    search: tuple[Any, list[_Run]]
    pending: list[tuple[int, float]]
    passed: list[tuple[int, float]] = field(default_factory=list)
    over: bool = False
    held: bool = False

    def __str__(self) -> str:
        return self.trial_id


class _NoOthers:
    """Answers what a scheduler may ask Tune's controller: no trial waits for the place of another."""

    def get_trials(self) -> list[Any]:
        return []

    get_live_trials = get_trials


class EarlyStopping(Scheduler):
    """One scheduler per method of a search, so that no method is stopped because of another.

    Args:
        make: builds a scheduler of Ray Tune; None builds none, and only `stoppers` decide.
        stoppers: stoppers of Ray Tune, which may stop a run, or keep further ones from starting.
        events: the study's log, which has the runs that earlier commands have stopped, and what they reached.
        made_of: returns a digest of what a run would be built from now. A run that was built from something else is
            not stopped yet.
    """

    def __init__(
        self,
        make: Callable[[], Any] | None,
        stoppers: Sequence[Any] = (),
        events: Iterable[Mapping[str, Any]] = (),
        made_of: Callable[[dict[str, Any]], str] = lambda config: "",
    ) -> None:
        self.make, self.stoppers, self.made_of = make, stoppers, made_of
        self.stopped: dict[str, Stop] = {}
        self._reached: dict[str, list[tuple[int, float]]] = {}
        self._searches: dict[tuple[str, ...], tuple[Any, list[_Run]]] = {}
        self._runs: dict[str, _Run] = {}
        for event in events:
            if event["event"] == "run stopped":
                name, at = event["run"], int(event["reached"])
                curve = tuple(value for step, value in self._reached.get(name, ()) if step <= at)
                self.stopped[name] = Stop(at, curve or (float(event["best"]),), event["made_of"])
            elif event["event"] == "run reached" and METRIC in event.get("numbers", {}):
                reached, value = self._reached.setdefault(event["run"], []), event["numbers"][METRIC]
                if not reached or int(event["step"]) > reached[-1][0]:
                    reached.append((int(event["step"]), 0.0 if value is None else float(value)))

    def enter(self, runs: Iterable[Planned]) -> None:
        """Add proposals in their order. Runs that no interval is drawn for are compared by seed, and never stopped."""
        for planned in runs:
            name = planned.name
            if not planned.drawn or name in self._runs:
                continue
            before = self.stopped.get(name)
            if before is not None and before.made_of != self.made_of(planned.config):
                del self.stopped[name]
                self._reached.pop(name, None)
            method = tuple(text for text in planned.overrides if key_of(text) not in (*planned.drawn, "seed"))
            if method not in self._searches:
                scheduler = self.make and self.make()
                if scheduler is not None:
                    scheduler.set_search_properties(METRIC, "max")
                self._searches[method] = (scheduler, [])
            scheduler, others = search = self._searches[method]
            run = self._runs[name] = _Run(name, planned.config, search, self._reached.pop(name, []))
            others.append(run)
            if scheduler is not None:
                scheduler.on_trial_add(_NoOthers(), run)
            run.over = name in self.stopped

    def reached(self, name: str, epoch: int, validation: float) -> dict[str, bool]:
        """Receive what a run has reached, and return whether runs may continue, by name; one that is missing waits.

        Only the first result within an epoch counts. A validation that is not a number counts as 0.
        """
        run = self._runs.get(name)
        if run is None:
            return {name: True}
        if epoch > max((at for at, _ in (*run.passed, *run.pending)), default=0):
            run.pending.append((epoch, validation if validation == validation else 0.0))
        run.held = True
        return self._answers(run)

    def ended(self, name: str) -> dict[str, bool]:
        """Receive the end of a run, and return whether the runs that waited for it may continue."""
        run = self._runs.get(name)
        if run is None:
            return {}
        run.over, run.held = True, False
        return self._answers(run)

    def let_go(self, name: str) -> None:
        if name in self._runs:
            self._runs[name].held = False

    def waiting_behind(self, name: str) -> list[str]:
        """Return the runs of the same search that wait and were proposed later."""
        run = self._runs.get(name)
        if run is None:
            return []
        _, runs = run.search
        return [other.trial_id for other in runs[runs.index(run) + 1 :] if other.held]

    def finished(self) -> bool:
        """Return whether a stopper has ended the search, so that no further run starts."""
        return any(stopper.stop_all() for stopper in self.stoppers)

    def _answers(self, reported: _Run) -> dict[str, bool]:
        """Pass on all results whose turn has come, and return the answers that follow for runs that wait."""
        scheduler, runs = reported.search
        slowest = float("inf")
        answers: dict[str, bool] = {}
        for run in runs:
            while run.pending and run.pending[0][0] <= slowest:
                self._pass_on(scheduler, run)
            if run.held and not run.pending:
                run.held = False
                answers[run.trial_id] = run.trial_id not in self.stopped
            if run.pending or not run.over:
                slowest = min(slowest, run.passed[-1][0] if run.passed else 0)
        return answers

    def _pass_on(self, scheduler: Any, run: _Run) -> None:
        """Pass a run's next result to the scheduler, and stop the run if it decides so."""
        epoch, validation = run.pending.pop(0)
        run.passed.append((epoch, validation))
        result = {TIME: epoch, "training_iteration": epoch, METRIC: validation, "trial_id": run.trial_id}
        ends = [stopper(run.trial_id, result) for stopper in self.stoppers]
        decision = "CONTINUE" if scheduler is None else scheduler.on_trial_result(_NoOthers(), run, result)
        if decision not in ("CONTINUE", "STOP"):
            what = f"{type(scheduler).__name__} decides {decision}, and a run can only be stopped or continue"
            raise BadInput(what, "trial_scheduler", CHOICES)
        # At its last epoch a run, or a fold of it, is complete: all that is left is to measure it.
        complete = epoch % run.config["training"]["max_epochs"] == 0
        if (any(ends) or decision == "STOP") and not run.over and not complete:
            run.over, run.pending = True, []
            self.stopped[run.trial_id] = Stop(epoch, tuple(value for _, value in run.passed))


def schedulers_of(node: dict[str, Any] | None, trust: Trust) -> Callable[[], Any] | None:
    """Return what builds a scheduler of Ray Tune from its options; None if there are none. Others are refused."""
    from ray.tune.error import TuneError
    from ray.tune.schedulers import HyperBandScheduler, PopulationBasedTraining, TrialScheduler

    if node is None:
        return None

    def make() -> Any:
        try:
            return build(node, "trial_scheduler", trust=trust)
        except (TuneError, ValueError, AssertionError) as error:  # of its options
            raise BadInput(str(error), "trial_scheduler") from None

    check_classes(node, trust)
    target = locate(node["_target_"])
    if not issubclass(target, TrialScheduler):
        raise BadInput("is no scheduler of Ray Tune", node["_target_"], "subclass ray.tune.schedulers.TrialScheduler")
    if issubclass(target, HyperBandScheduler | PopulationBasedTraining):
        what = f"{target.__name__} changes settings, or lets runs wait in an order that no resume repeats"
        raise BadInput(what, "trial_scheduler", CHOICES)
    make()
    return make


def built_as(kind: type, nodes: Sequence[Any], key: str, trust: Trust) -> list[Any]:
    """Build objects of a class of Ray Tune from paths of classes or parts with `_target_`; refuse others."""
    built = []
    for node in map(as_node, nodes):
        built.append(build(node, key, trust=trust))
        if not isinstance(built[-1], kind):
            name = kind.__name__
            raise BadInput(f"is no {name.lower()} of Ray Tune", node["_target_"], f"subclass ray.tune.{name}")
    return built


class TimeBudget:
    """The time of a study, which starts when this is built. Runs that have started by its end are completed.

    Args:
        budget: see `pyrite.cluster.config.durations.seconds_of`; None sets no limit.
        finished: returns whether the user's stoppers have ended the study; None if there are none.
        now: a clock.
    """

    def __init__(
        self,
        budget: str | float | None,
        finished: Callable[[], bool] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now, self._until = now, math.inf if budget is None else now() + seconds_of(budget, "time_budget")
        self._finished = finished or (lambda: False)
        self.over = False
        """Whether a run was kept from starting."""

    def spent(self) -> bool:
        """Return whether no further run may start."""
        self.over = self.over or self._finished() or self._now() >= self._until
        return self.over
