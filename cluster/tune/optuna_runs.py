"""Lets Optuna propose runs while a study goes on: a search over the intervals for each method by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution

from cluster.output.provenance import differences
from cluster.output.storage import Storage
from cluster.plan.sweep import Interval, Planned, Point, plan
from cluster.runs.outcome import mean_best, read_outcome
from cluster.tune.run_source import FINISHED, RunSource

optuna.logging.set_verbosity(optuna.logging.WARNING)


def distribution(interval: Interval) -> BaseDistribution:
    """An interval as Optuna has it."""
    if interval.whole:
        return IntDistribution(round(interval.low), round(interval.high), log=interval.log)
    return FloatDistribution(interval.low, interval.high, log=interval.log)


class OptunaRuns(RunSource):
    """A Tree-structured Parzen Estimator (Bergstra et al. 2011) a method, maximising the validation measure.

    Methods take turns, and each proposal runs with every seed before the next one of its method. So a
    method's proposals depend on its own results alone, in their order: with the same numbers the search
    is the same, whatever the number of workers, and a resumed search replays what is finished.

    Args:
        points: the methods, with their intervals.
        samples: proposals for each.
        seeds: each proposal runs with all of them; their mean is what Optuna hears.
        storage: where finished results are looked up.
        made_of: what a result must be made of (`Artifacts.provenance`).
    """

    def __init__(
        self,
        points: Sequence[Point],
        samples: int,
        seeds: Sequence[int],
        storage: Storage,
        made_of: Callable[[dict[str, Any]], Mapping[str, str]],
    ) -> None:
        self.points, self.samples, self.seeds, self.storage = points, samples, seeds, storage
        self.made_of = made_of
        self.describe: Callable[[Planned], dict[str, Any]] = lambda planned: {"name": planned.name}
        self.on_total: Callable[[int], None] = lambda total: None  # told by nobody: it is known before
        self._studies = [
            optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=number))
            for number in range(len(points))
        ]
        self._open: list[tuple[optuna.Trial, dict[str, float | None]] | None] = [None] * len(points)
        self._left = [samples] * len(points)
        self._queue: list[tuple[int, Planned]] = []
        self._running: dict[str, tuple[int, Planned]] = {}
        self.proposed: list[Planned] = []
        self.finished = 0
        for method in range(len(points)):
            self._propose(method)

    @property
    def total(self) -> int:
        """Runs of the whole search."""
        return len(self.points) * self.samples * len(self.seeds)

    def examples(self) -> list[Planned]:
        """A run of each method, to prepare for."""
        return [plan(point, point.at([0.5] * len(point.intervals)), self.seeds[:1])[0] for point in self.points]

    def _propose(self, method: int) -> None:
        """Queue a method's next proposal, passing over what is finished from before."""
        while self._left[method] and self._open[method] is None:
            self._left[method] -= 1
            point = self.points[method]
            trial = self._studies[method].ask({key: distribution(interval) for key, interval in point.intervals})
            drawn = [
                f"{key}={float(f'{trial.params[key]:.6g}'):g}" if not interval.whole else f"{key}={trial.params[key]}"
                for key, interval in point.intervals
            ]
            runs = plan(point, drawn, self.seeds)
            self.proposed += runs
            self._open[method] = (trial, {planned.name: None for planned in runs})
            for planned in runs:
                best = self._best(planned)
                if best is None:
                    self._queue.append((method, planned))
                else:
                    self.finished += 1
                    self._tell(method, planned.name, best)

    def _best(self, planned: Planned) -> float | None:
        outcome = read_outcome(self.storage, planned.name)
        same = outcome is not None and not differences(outcome.made_of, self.made_of(planned.config))
        return mean_best(outcome) if outcome is not None and same else None

    def _tell(self, method: int, name: str, best: float) -> None:
        opened = self._open[method]
        if opened is None:
            return
        trial, values = opened
        values[name] = best
        known = [value for value in values.values() if value is not None]
        if len(known) == len(values):
            self._studies[method].tell(trial, sum(known) / len(known))
            self._open[method] = None

    def suggest(self, trial_id: str) -> Any:
        """Tune asks for the next run; None asks it to wait for results."""
        if not self._queue:
            for method in range(len(self.points)):
                self._propose(method)
        if not self._queue:
            return None if any(self._left) or self._running else FINISHED
        method, planned = self._queue.pop(0)
        self._running[trial_id] = (method, planned)
        return {"run": self.describe(planned)}

    def on_trial_complete(self, trial_id: str) -> None:
        """A run has ended; one without a result counts as 0."""
        method, planned = self._running.pop(trial_id)
        self._tell(method, planned.name, self._best(planned) or 0.0)
