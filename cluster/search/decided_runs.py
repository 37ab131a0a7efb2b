"""Hands out seeds until every comparison of a study is decided, and no longer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pyrite.analysis.methods import is_learned
from pyrite.analysis.statistics.sequential import SequentialRule, Values, best_baseline, compare_all, contenders
from pyrite.cluster.config.groups import CHOICES
from pyrite.cluster.output.event_log import EventLog
from pyrite.cluster.plan.study import StudyPlan
from pyrite.cluster.plan.sweep import Planned, Point, is_baseline
from pyrite.cluster.plan.sweep import plan as runs_of
from pyrite.cluster.search.proposals import MadeOf, Proposals
from pyrite.ranking.digest import digest

EVENT = "seeds given"


class DecidedRuns(Proposals):
    """Rounds of seeds: first a few for all methods, then one at a time for those whose comparison is still open.

    A round is chosen when the last one is over. So the runs depend only on results, for any number of workers, and a
    resumed study repeats the rounds in its log.

    Args:
        points: the methods, without intervals.
        made_of: see `Proposals`.
    """

    def __init__(self, plan: StudyPlan, points: Sequence[Point], made_of: MadeOf) -> None:
        super().__init__(plan, made_of)
        rule = SequentialRule.of_options(plan.options)
        self.seeds, self.rule = sorted(plan.seeds), replace(rule, most=min(rule.most, len(plan.seeds)))
        baseline = plan.options["baseline"] or plan.design.get("baseline")
        self._unlogged: list[dict[str, Any]] = []
        self._emit: Callable[[dict[str, Any]], None] = self._unlogged.append
        self.methods: dict[str, dict[int, Planned]] = {}
        self.families: dict[str, list[str]] = {}
        self.baselines: set[str] = set()
        self.named: set[str] = set()
        for point in points:
            self._add(point, baseline)
        self.given: dict[str, int] = dict.fromkeys(self.methods, 0)
        self._logged = [event for event in EventLog.read(plan.storage) if event["event"] == EVENT]
        self._round = 0
        self._values: dict[str, dict[int, float]] = {name: {} for name in self.methods}
        self._method_of = {planned.name: name for name, runs in self.methods.items() for planned in runs.values()}
        self.propose()

    def _add(self, point: Point, baseline: str | None) -> None:
        """Add a method to those of its family: the same ranker, from the same checkpoint, on the same data."""
        runs = {planned.config["seed"]: planned for planned in runs_of(point, (), self.seeds)}
        example = next(iter(runs.values()))
        name = " ".join(f"{key}={value}" for key, value in example.parameters.items() if key != "seed")
        if name in self.methods:  # methods that differ only in what the study does not sweep
            name += f" {digest(list(point.overrides))[:6]}"
        self.methods[name] = runs
        self.examples.append(example)
        config = example.config
        ranker = [config[CHOICES]["ranker"], config["ranker"].get("checkpoint")]
        family = digest([*ranker, config["collection"], config["strict"], config["limits"]])
        self.families.setdefault(family, []).append(name)
        self.baselines |= set() if is_learned(config[CHOICES]) else {name}
        self.named |= {name} if is_baseline(baseline, example) else set()

    @property
    def total(self) -> int:
        """Runs so far; more may follow."""
        return len(self.proposed)

    def receive(self, planned: Planned) -> None:
        self._load(planned)

    def _load(self, planned: Planned) -> bool:
        """Read a run's result if it exists. A run that failed leaves its seed without a pair."""
        outcome = self.outcome(planned)
        if outcome is None:
            return False
        # Methods are compared by the mean of the first measure over the first origin.
        leading = next(iter(next(iter(outcome.values.values())).values()))
        self._values[self._method_of[planned.name]][planned.config["seed"]] = float(np.mean(leading))
        return True

    def propose(self) -> None:
        """Start rounds, once the last one is over, until one has something to run, or no comparison is open."""
        while not self._queue and not self._running and (chosen := self._next()):
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
        verdicts: dict[str, str] = {}
        for names in self.families.values():
            values: Values = {name: self._values[name] for name in names}
            verdicts |= self._verdicts(values)
            chosen |= dict.fromkeys(names, self.rule.first) if self._round == 0 else self._wanted(values)
        left = {name: self.rule.most - self.given[name] for name in chosen}
        chosen = {name: min(count, left[name]) for name, count in chosen.items() if left[name] > 0}
        if chosen:
            self._emit({"round": self._round, "methods": chosen, "verdicts": verdicts})
        return chosen

    def _verdicts(self, values: Values) -> dict[str, str]:
        """Return the verdict of each method of a family against the best baseline."""
        baselines = self.baselines & set(values)
        compared = compare_all(values, baselines, self.rule, intervals=False)
        opponents = {name: best_baseline(values, baselines, name) for name in values}
        return {a: compared[a, b].verdict for a, b in opponents.items() if b and (a, b) in compared}

    def _wanted(self, values: Values) -> dict[str, int]:
        """Return one seed for each method of a family whose comparison is open.

        A method that becomes the best baseline again first catches up with those that it is compared with.
        """
        wanted = contenders(values, self.baselines & set(values), self.named & set(values), self.rule)
        front = max((self.given[name] for name in wanted), default=0)
        behind = {name for name in wanted if self.given[name] < front}
        return dict.fromkeys(sorted(behind or wanted), 1)

    def start(self, log: EventLog) -> None:
        self._emit = lambda facts: log.emit(EVENT, **facts)
        for facts in self._unlogged:
            self._emit(facts)
