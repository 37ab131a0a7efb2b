"""Asks a scheduler of Ray Tune which runs of a search go on, as if they had run one after another.

A scheduler decides by the results that it has seen, and with several workers those come in any order. Here the results
of a method's proposals are put before it in an order of their own: a run's at an epoch, once all that were proposed
before it have come as far or are over; a run that is ahead waits for them. So the same runs are stopped whatever the
number of workers, and a study that goes on puts what its log has of earlier runs before the scheduler again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cluster.config.build import build, locate
from cluster.plan.sweep import Planned, key_of
from cluster.runs.stop import Stop
from ranking.errors import BadInput

METRIC, TIME = "validation", "epoch"


@dataclass
class _Run:
    """A run as a scheduler has it: Ray Tune's schedulers know trials by these names."""

    trial_id: str
    config: dict[str, Any]
    seen: list[tuple[int, float]] = field(default_factory=list)
    unseen: list[tuple[int, float]] = field(default_factory=list)
    over: bool = False

    __hash__ = object.__hash__

    def __str__(self) -> str:
        return self.trial_id

    @property
    def last(self) -> int:
        """The last epoch that it has told of."""
        told = self.unseen or self.seen
        return told[-1][0] if told else 0


class _NoOthers:
    """What a scheduler may ask of Tune's controller: no trial waits for another's place here."""

    def get_trials(self) -> list[Any]:
        return []

    get_live_trials = get_trials


class SearchScheduler:
    """One scheduler for each method of a search: methods are compared, and none is stopped for another's sake.

    Args:
        make: a scheduler of Ray Tune; None: none, and `stoppers` alone decide.
        stoppers: of Ray Tune, which may stop a run, or let no further one begin.
        stopped: runs that an earlier command has stopped.
        made_of: digest of what a run would be made of now; one that was made of something else is not stopped yet.
        reached: what earlier commands have heard of runs: (epoch, validation) each.
    """

    def __init__(
        self,
        make: Callable[[], Any] | None,
        stoppers: Sequence[Any] = (),
        stopped: Mapping[str, Stop] | None = None,
        reached: Mapping[str, Sequence[tuple[int, float]]] | None = None,
        made_of: Callable[[dict[str, Any]], str] = lambda config: "",
    ) -> None:
        self.make, self.stoppers, self.made_of = make, stoppers, made_of
        self.stopped: dict[str, Stop] = dict(stopped or {})
        self._reached = dict(reached or {})
        self._searches: dict[tuple[str, ...], tuple[Any, list[_Run]]] = {}
        self._of: dict[str, tuple[str, ...]] = {}
        self._runs: dict[str, _Run] = {}
        self._held: set[str] = set()

    def enter(self, runs: Iterable[Planned]) -> None:
        """Take in proposals in their order; runs of one setting are compared by their seeds, and never stopped."""
        for planned in runs:
            if planned.drawn and planned.name not in self._of:
                before = self.stopped.get(planned.name)
                if before is not None and before.made_of != self.made_of(planned.config):
                    del self.stopped[planned.name]
                    self._reached.pop(planned.name, None)
                own = tuple(text for text in planned.overrides if key_of(text) not in (*planned.drawn, "seed"))
                if own not in self._searches:
                    self._searches[own] = (self._made(), [])
                scheduler, there = self._searches[own]
                run = _Run(planned.name, planned.config, unseen=list(self._reached.pop(planned.name, ())))
                self._of[planned.name], self._runs[planned.name] = own, run
                there.append(run)
                if scheduler is not None:
                    scheduler.on_trial_add(_NoOthers(), run)
                run.over = planned.name in self.stopped

    def _made(self) -> Any:
        if self.make is None:
            return None
        scheduler = self.make()
        scheduler.set_search_properties(METRIC, "max")
        return scheduler

    def reached(self, name: str, epoch: int, validation: float) -> dict[str, bool]:
        """Hear of a run.

        Args:
            name: of the run.
            epoch: epochs that are over; of several results within one the first counts.
            validation: of its end; what is not a number is 0.

        Returns:
            Which runs may go on, or not; where this one is not among them, it waits for others.
        """
        run = self._runs.get(name)
        if run is None:
            return {name: True}
        if epoch > run.last:
            run.unseen.append((epoch, validation if validation == validation else 0.0))
        self._held.add(name)
        return self._answers(name)

    def ended(self, name: str) -> dict[str, bool]:
        """Hear that a run is over, well or not: which of those that waited may go on, or not."""
        run = self._runs.get(name)
        if run is None:
            return {}
        run.over = True
        self._held.discard(name)
        return self._answers(name)

    def let_go(self, name: str) -> None:
        """A run waits no longer: it has lost its process, or its place to another, and will tell again."""
        self._held.discard(name)

    def waiting_behind(self, name: str) -> list[str]:
        """The runs of its search that wait and were proposed later."""
        if name not in self._of:
            return []
        names = [run.trial_id for run in self._searches[self._of[name]][1]]
        return [each for each in names[names.index(name) + 1 :] if each in self._held]

    @property
    def finished(self) -> bool:
        """Whether a stopper has ended the search: no further run begins."""
        return any(stopper.stop_all() for stopper in self.stoppers)

    def _answers(self, name: str) -> dict[str, bool]:
        scheduler, runs = self._searches[self._of[name]]
        least: float = float("inf")
        found: dict[str, bool] = {}
        for run in runs:
            while run.unseen and run.unseen[0][0] <= least:
                self._show(scheduler, run)
            if run.trial_id in self._held and not run.unseen:
                self._held.remove(run.trial_id)
                found[run.trial_id] = run.trial_id not in self.stopped
            if run.unseen or not run.over:
                least = min(least, run.seen[-1][0] if run.seen else 0)
        return found

    def _show(self, scheduler: Any, run: _Run) -> None:
        """Put a run's next result before the scheduler, unless the run is stopped."""
        epoch, validation = run.unseen.pop(0)
        run.seen.append((epoch, validation))
        result = {TIME: epoch, "training_iteration": epoch, METRIC: validation, "trial_id": run.trial_id}
        ends = [stopper(run.trial_id, result) for stopper in self.stoppers]
        said = "CONTINUE" if scheduler is None else scheduler.on_trial_result(_NoOthers(), run, result)
        if said not in ("CONTINUE", "STOP"):
            what = f"{type(scheduler).__name__} says {said} to a run, which can be stopped or go on, no more"
            raise BadInput(what, "trial_scheduler", "choose asha, median or hyperband")
        # With its last epoch a run, or a fold of it, is at its end: all that is left is what it was trained for.
        at_its_end = epoch % run.config["training"]["max_epochs"] == 0
        if (any(ends) or said == "STOP") and not run.over and not at_its_end:
            run.over, run.unseen = True, []
            self.stopped[run.trial_id] = Stop(epoch, tuple(value for _, value in run.seen))


def schedulers_of(node: dict[str, Any] | None) -> Callable[[], Any] | None:
    """What makes a scheduler of Ray Tune from its options; None where none is asked for.

    Raises:
        BadInput: where the class is none of those that stop runs by their results.
    """
    from ray.tune.error import TuneError
    from ray.tune.schedulers import HyperBandScheduler, PopulationBasedTraining, TrialScheduler

    if node is None:
        return None

    def make() -> Any:
        try:
            return build(node, "trial_scheduler")
        except (TuneError, ValueError, AssertionError) as error:  # of its options
            raise BadInput(str(error), "trial_scheduler") from None

    target = locate(node["_target_"])
    if not issubclass(target, TrialScheduler):
        raise BadInput("is no scheduler of Ray Tune", node["_target_"], "subclass ray.tune.schedulers.TrialScheduler")
    if issubclass(target, HyperBandScheduler | PopulationBasedTraining):
        what = f"{target.__name__} changes settings or has runs wait in an order of its own: no resume repeats it"
        raise BadInput(what, "trial_scheduler", "choose asha, median or hyperband")
    make()
    return make


def stoppers_of(nodes: Sequence[dict[str, Any]]) -> list[Any]:
    """The user's stoppers.

    Raises:
        BadInput: where one is no `ray.tune.Stopper`.
    """
    from ray.tune import Stopper

    made = [build(node, "stoppers") for node in nodes]
    for stopper, node in zip(made, nodes, strict=True):
        if not isinstance(stopper, Stopper):
            raise BadInput("is no stopper of Ray Tune", node["_target_"], "subclass ray.tune.Stopper")
    return made


def of_log(events: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Stop], dict[str, list[tuple[int, float]]]]:
    """What a folder's log has of runs: where they were stopped, and what they reached."""
    stopped: dict[str, Stop] = {}
    reached: dict[str, list[tuple[int, float]]] = {}
    for event in events:
        if event["event"] == "run stopped":
            curve = tuple(value for step, value in reached.get(event["run"], ()) if step <= event["reached"])
            stopped[event["run"]] = Stop(int(event["reached"]), curve or (float(event["best"]),), event["made_of"])
        elif event["event"] == "run reached" and METRIC in event.get("numbers", {}):
            told, value = reached.setdefault(event["run"], []), event["numbers"][METRIC]
            if not told or int(event["step"]) > told[-1][0]:
                told.append((int(event["step"]), 0.0 if value is None else float(value)))
    return stopped, reached
