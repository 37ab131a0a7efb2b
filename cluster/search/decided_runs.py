"""Hands out seeds until every comparison of a study is decided, and no longer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cluster.config.groups import CHOICES
from cluster.executors.task import Done, Task, Wait
from cluster.output.event_log import EventLog
from cluster.output.methods import is_learned
from cluster.output.storage import Storage
from cluster.plan.sweep import Planned, Point, plan
from cluster.search.proposals import Proposals
from cluster.statistics.sequential import StoppingRule, Values, best_baseline, compare_all, contenders
from ranking.digest import digest

EVENT = "seeds given"


class DecidedRuns(Proposals):
    """Rounds of seeds: first a few for all methods, then one at a time for those whose comparison is still open.

    A round is chosen when the last one is over. So the runs depend only on results, for any number of workers, and a
    resumed study repeats the rounds in its log.

    Args:
        points: the methods, without intervals.
        seeds: the seeds, given in ascending order.
        named: returns whether a run belongs to a baseline that the user names.
        storage, made_of: see `Proposals`.
    """

    def __init__(
        self,
        points: Sequence[Point],
        seeds: Sequence[int],
        rule: StoppingRule,
        named: Callable[[Planned], bool],
        storage: Storage,
        made_of: Callable[[dict[str, Any]], Mapping[str, str]],
    ) -> None:
        super().__init__(storage, made_of)
        self.seeds, self.rule = sorted(seeds), replace(rule, most=min(rule.most, len(seeds)))
        self._log: EventLog | None = None
        self._unlogged: list[dict[str, Any]] = []
        self.methods: dict[str, dict[int, Planned]] = {}
        self.families: dict[str, list[str]] = {}
        self.baselines: set[str] = set()
        self.named: set[str] = set()
        for point in points:
            runs = {planned.config["seed"]: planned for planned in plan(point, (), self.seeds)}
            example = next(iter(runs.values()))
            swept = {key: value for key, value in example.parameters.items() if key != "seed"}
            name = " ".join(f"{key}={value}" for key, value in swept.items())
            if name in self.methods:  # methods that differ only in what the study does not sweep
                name += f" {digest(list(point.overrides))[:6]}"
            self.methods[name] = runs
            config = example.config
            family = digest([config[CHOICES]["ranker"], config["collection"], config["strict"], config["limits"]])
            self.families.setdefault(family, []).append(name)
            self.baselines |= set() if is_learned(config[CHOICES]) else {name}
            self.named |= {name} if named(example) else set()
        self.given: dict[str, int] = dict.fromkeys(self.methods, 0)
        self._logged = [event for event in EventLog.read(storage) if event["event"] == EVENT]
        self._round = 0
        self._queue: list[Planned] = []
        self._open: dict[str, Planned] = {}
        self._values: dict[str, dict[int, float]] = {name: {} for name in self.methods}
        self._of = {planned.name: (name, seed) for name, of in self.methods.items() for seed, planned in of.items()}
        self._advance()

    @property
    def total(self) -> int:
        """Runs so far; more may follow."""
        return len(self.proposed)

    def examples(self) -> list[Planned]:
        """One run per method."""
        return [runs[self.seeds[0]] for runs in self.methods.values()]

    def next(self) -> Task | Wait | None:
        """Return the next run; `Wait.WAIT` if the next round depends on runs that have not ended."""
        if not self._queue and not self._open:
            self._advance()
        if not self._queue:
            return Wait.WAIT if self._open else None
        planned = self._queue.pop(0)
        self._open[planned.name] = planned
        return self.task_of(planned)

    def ended(self, done: Done) -> None:
        """Receive the end of a run."""
        self._load(self._open.pop(done.task.key))

    def _load(self, planned: Planned) -> bool:
        """Read a run's result if it exists. A run that failed leaves its seed without a pair."""
        outcome = self.outcome(planned)
        if outcome is None:
            return False
        method, seed = self._of[planned.name]
        # Methods are compared by the mean of the first measure over the first origin.
        leading = next(iter(next(iter(outcome.values.values())).values()))
        self._values[method][seed] = float(np.mean(leading))
        return True

    def _advance(self) -> None:
        """Start rounds until one has something to run, or no comparison is open."""
        while not self._queue:
            chosen = self._next()
            if not chosen:
                return
            for name, count in chosen.items():
                for seed in self.seeds[self.given[name] : self.given[name] + count]:
                    planned = self.methods[name][seed]
                    self.proposed.append(planned)
                    if self._load(planned):
                        self.finished += 1
                    else:
                        self._queue.append(planned)
                self.given[name] += count
            self._round += 1
            self.on_total(self.total)

    def _next(self) -> dict[str, int]:
        """Return how many seeds each method gets next."""
        if self._round < len(self._logged):  # of an earlier command
            return {name: count for name, count in self._logged[self._round]["methods"].items() if name in self.methods}
        chosen: dict[str, int] = {}
        for names in self.families.values():
            if self._round == 0:
                chosen |= dict.fromkeys(names, min(self.rule.first, self.rule.most))
                continue
            values: Values = {name: self._values[name] for name in names}
            wanted = contenders(values, self.baselines & set(names), self.named & set(names), self.rule)
            # A method that becomes the best baseline again catches up with those that it is compared with.
            front = max((self.given[name] for name in wanted), default=0)
            behind = {name for name in wanted if self.given[name] < front}
            chosen |= dict.fromkeys(sorted(behind or wanted), 1)
        chosen = {name: min(count, self.rule.most - self.given[name]) for name, count in chosen.items()}
        chosen = {name: count for name, count in chosen.items() if count > 0}
        if chosen:
            facts = {"round": self._round, "methods": chosen, "verdicts": self.verdicts()}
            if self._log is None:
                self._unlogged.append(facts)
            else:
                self._log.emit(EVENT, **facts)
        return chosen

    def start(self, log: EventLog) -> None:
        """Write decisions to a log, also those that were made before it existed."""
        self._log = log
        for facts in self._unlogged:
            log.emit(EVENT, **facts)

    def verdicts(self) -> dict[str, str]:
        """Return the verdict on each method against the best baseline, so far."""
        verdicts: dict[str, str] = {}
        for names in self.families.values():
            values = {name: self._values[name] for name in names}
            baselines = self.baselines & set(names)
            compared = compare_all(values, baselines, self.rule, intervals=False)
            for name in names:
                other = best_baseline(values, baselines, name)
                pair = compared.get((name, str(other)))
                if pair is not None:
                    verdicts[name] = pair.verdict
        return verdicts
