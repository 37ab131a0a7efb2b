"""Hands out the runs of populations part by part, and lets those that are behind go on from those ahead.

A run is named by its settings, and by what they change to (`changes`): one that goes on from another's state under
other settings is another run, which `pyrite train` repeats from its first epoch on with the same numbers. The one in
whose place it stands is stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cluster.output.event_log import EventLog
from cluster.output.provenance import content_digest, differences
from cluster.output.storage import Storage
from cluster.plan.sweep import Planned, Point
from cluster.runs.outcome import read_outcome
from cluster.runs.results import RunState, forget_state
from cluster.runs.stop import Stop
from cluster.telemetry.tracking.tracking import Tracking
from cluster.tune.members import Member, Population
from cluster.tune.population import PopulationBandits
from cluster.tune.population_scheduler import PopulationScheduler
from cluster.tune.run_source import FINISHED, RunSource
from ranking.errors import BadInput

EVENT = "population compared"
FAILED = "failed in an earlier command, and its population went on without it"


class PopulationRuns(RunSource):
    """A population of runs a method, which wait for each other after every so many epochs.

    A population is compared when each of its runs has come as far or is over. So what runs, and under which settings,
    depends on the results alone, whatever the number of workers; and a study that goes on takes the comparisons that
    its log tells of as they were.

    Args:
        points: the methods, with their intervals.
        samples: runs of each population.
        seeds: the one seed of all.
        storage: where results and states are looked up, and the log is.
        made_of: what a result must be made of (`Artifacts.provenance`).
        bandits: decide.
        scheduler: hears what runs reach.

    Raises:
        BadInput: where there is nobody to follow, or no part of a run is left to be trained after a comparison.
    """

    def __init__(
        self,
        points: Sequence[Point],
        samples: int,
        seeds: Sequence[int],
        storage: Storage,
        made_of: Callable[[dict[str, Any]], Mapping[str, str]],
        bandits: PopulationBandits,
        scheduler: PopulationScheduler,
    ) -> None:
        if samples < 2:
            raise BadInput(f"a population of {samples} has nobody to follow", "samples", "choose 4 or more")
        self.storage, self.made_of, self.bandits, self.scheduler = storage, made_of, bandits, scheduler
        self.describe: Callable[[Planned], dict[str, Any]] = lambda planned: {"name": planned.name}
        self.on_total: Callable[[int], None] = lambda total: None
        self.on_stopped: Callable[[str], None] = lambda name: None
        self.errors: dict[str, str] = {}
        self._tracking: Tracking | None = None
        self._running: dict[str, tuple[Population, Member]] = {}
        self.populations = [
            Population(number, point, seeds, samples, bandits.interval) for number, point in enumerate(points)
        ]
        told = {(each["method"], each["epoch"]): each for each in EventLog.read(storage) if each["event"] == EVENT}
        for population in self.populations:
            while (event := told.get((population.number, population.end))) is not None:
                for name, value in event["reached"].items():
                    scheduler.curves.setdefault(name, {}).setdefault(event["epoch"], value)
                self.errors |= dict.fromkeys(event["failed"], FAILED)
                self._carry_out(population, event)
        ended = scheduler.stopped.keys() | self.errors.keys()
        members = (member for each in self.populations for member in each.members.values())
        self.finished = sum(member.planned.name in ended or self._done(member) for member in members)

    @property
    def total(self) -> int:
        """Runs so far; each that goes on from another's state is one more."""
        return len(self.proposed)

    @property
    def proposed(self) -> list[Planned]:
        """All runs so far."""
        return [member.planned for each in self.populations for member in each.members.values()]

    def examples(self) -> list[Planned]:
        """A run of each method whose settings all change, to prepare for."""
        return [each.example() for each in self.populations]

    def start(self, tracking: Tracking | None) -> None:
        """Have comparisons written to a log, and trackers told who is stopped."""
        self._tracking = tracking

    def suggest(self, trial_id: str) -> Any:
        for population in self.populations:
            self._advance(population)
            if population.queue:
                member = population.queue.pop(0)
                self._running[trial_id] = population, member
                end = None if member.alone else population.end
                return {"run": self.describe(member.planned) | ({} if end is None else {"until": end})}
        return None if self._running else FINISHED

    def on_trial_complete(self, trial_id: str) -> None:
        """A part has ended; a run that has come neither to its end nor to that of the part has failed."""
        population, member = self._running.pop(trial_id)
        waits = not member.alone and population.end in self._curve(member)
        member.over = not waits or self._done(member)

    def _curve(self, member: Member) -> dict[int, float]:
        """What a run's line has reached, by epoch: its own, and before that what it went on from."""
        return member.before | self.scheduler.curves.get(member.planned.name, {})

    def _done(self, member: Member) -> bool:
        outcome = read_outcome(self.storage, member.planned.name)
        return outcome is not None and not differences(outcome.made_of, self.made_of(member.planned.config))

    def _advance(self, population: Population) -> None:
        """Queue what is left of a part, or compare and begin the next one."""
        while not population.queue and all(each is not population for each, _ in self._running.values()):
            for member in population.training:
                if self._done(member):
                    member.over = True
                elif member.alone or population.end is None or population.end not in self._curve(member):
                    population.queue.append(member)
            if population.queue or population.end is None or not population.compared:
                return
            event = self._compare(population, population.end)
            if self._tracking is not None:
                self._tracking.events.emit(EVENT, **event)
                self._tracking.events.flush()
            self._carry_out(population, event, self._stop)
            self.on_total(self.total)

    def _compare(self, population: Population, end: int) -> dict[str, Any]:
        """Decide who goes on from whom, and hand the states on: what `_carry_out` then takes, and the log keeps."""
        members = population.compared
        reached = [self._curve(member)[end] for member in members]
        known = [*population.known, *population.gains(members, [self._curve(member) for member in members])]
        rng = np.random.default_rng([self.bandits.seed, population.number, population.part])
        followed: list[dict[str, Any]] = []
        for each in self.bandits.exploit(reached, known, end / population.epochs, rng):
            behind, ahead = members[each.behind], members[each.ahead]
            planned = population.following(ahead, population.settings(each.shares))
            if planned is None or planned.name in (one["run"] for one in followed):  # of few whole numbers
                continue
            self._state(planned).take(self._state(ahead.planned))
            names = {"run": planned.name, "from": ahead.planned.name, "instead_of": behind.planned.name}
            followed.append(names | {"settings": population.settings(each.shares)})
        failed = [name for name, member in population.members.items() if member.over and not self._done(member)]
        return {
            "method": population.number,
            "epoch": end,
            "reached": {member.planned.name: value for member, value in zip(members, reached, strict=True)},
            "followed": followed,
            "failed": [name for name in failed if name not in self.scheduler.stopped],
        }

    def _carry_out(
        self, population: Population, event: Mapping[str, Any], on_stop: Callable[[Member, Stop], None] | None = None
    ) -> None:
        """Take what came of a comparison, and begin the next part."""
        for member in population.compared:
            if member.planned.name not in event["reached"]:  # it was over by then
                member.over = self._done(member) or member.planned.name in event["failed"]
                member.alone = True
        members = [population.members[name] for name in event["reached"]]
        population.known += population.gains(members, [self._curve(member) for member in members])
        for each in event["followed"]:
            ahead, behind = population.members[each["from"]], population.members[each["instead_of"]]
            population.follow(ahead, each["settings"], self._curve(ahead))
            behind.over = True
            curve = self._curve(behind)
            stop = Stop(event["epoch"], tuple(curve[epoch] for epoch in sorted(curve) if epoch <= event["epoch"]))
            self.scheduler.stopped[behind.planned.name] = stop
            if on_stop is not None:
                on_stop(behind, stop)
        population.part += 1

    def _stop(self, member: Member, stop: Stop) -> None:
        """Tell that a run is stopped, and delete its state."""
        name, made_of = member.planned.name, self.made_of(member.planned.config)
        forget_state(self.storage, name, made_of)
        self.on_stopped(name)
        if self._tracking is not None:
            facts = {"reached": stop.at, "best": stop.best, "made_of": content_digest(made_of)}
            self._tracking.events.emit("run stopped", run=name, unit="epoch", **facts)
            self._tracking.end(name, "stopped", {"best": stop.best})

    def _state(self, planned: Planned) -> RunState:
        return RunState(self.storage, planned.name, self.made_of(planned.config))
