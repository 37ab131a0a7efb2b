"""Lets Optuna propose runs while a study goes on: a search over the intervals for each method by itself."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution

from cluster.output.provenance import differences
from cluster.output.storage import Storage
from cluster.plan.sweep import Interval, Planned, Point, plan
from cluster.runs.outcome import mean_best, read_outcome
from cluster.tune.run_source import FINISHED, RunSource
from cluster.tune.search_scheduler import SearchScheduler

optuna.logging.set_verbosity(optuna.logging.WARNING)
warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)


def distribution(interval: Interval) -> BaseDistribution:
    """An interval as Optuna has it."""
    if interval.whole:
        return IntDistribution(round(interval.low), round(interval.high), log=interval.log)
    return FloatDistribution(interval.low, interval.high, log=interval.log)


def _drawn(key: str, interval: Interval, value: float) -> str:
    """The override of what was drawn from an interval."""
    return f"{key}={value}" if interval.whole else f"{key}={float(f'{value:.6g}'):g}"


def _tpe(seed: int, parallel: int) -> optuna.samplers.BaseSampler:
    """A Tree-structured Parzen Estimator (Bergstra et al. 2011); proposals of one time keep away from each other."""
    return optuna.samplers.TPESampler(seed=seed, constant_liar=parallel > 1)


def _gp(seed: int, parallel: int) -> optuna.samplers.BaseSampler:
    """A Gaussian process with expected improvement: few runs, few settings."""
    return optuna.samplers.GPSampler(seed=seed)


def _cmaes(seed: int, parallel: int) -> optuna.samplers.BaseSampler:
    """Evolution with an adapted covariance (Hansen 2016): many runs, several settings."""
    import cmaes  # noqa: F401  what an extra has, which a refusal names

    return optuna.samplers.CmaEsSampler(seed=seed)


SAMPLERS: dict[str, Callable[[int, int], optuna.samplers.BaseSampler]] = {"tpe": _tpe, "gp": _gp, "cmaes": _cmaes}


class OptunaRuns(RunSource):
    """A sampler of Optuna's a method, maximising the validation measure.

    Methods take turns, and a method's proposals run with every seed before its next ones. So they depend on its own
    results alone, in the order in which they were proposed: with the same numbers the search is the same, whatever the
    number of workers, and a resumed search replays what is finished.

    Args:
        points: the methods, with their intervals.
        samples: proposals for each.
        seeds: each proposal runs with all of them; their mean is what Optuna hears.
        storage: where finished results are looked up.
        made_of: what a result must be made of (`Artifacts.provenance`).
        sampler: a name of SAMPLERS.
        parallel: proposals of a method that are made at once, before any of their results is known.
        scheduler: may stop runs, which count by their best until then.
    """

    def __init__(
        self,
        points: Sequence[Point],
        samples: int,
        seeds: Sequence[int],
        storage: Storage,
        made_of: Callable[[dict[str, Any]], Mapping[str, str]],
        sampler: str = "tpe",
        parallel: int = 1,
        scheduler: SearchScheduler | None = None,
    ) -> None:
        self.points, self.samples, self.seeds, self.storage = points, samples, seeds, storage
        self.made_of = made_of
        self.describe: Callable[[Planned], dict[str, Any]] = lambda planned: {"name": planned.name}
        self.on_total: Callable[[int], None] = lambda total: None  # told by nobody: it is known before
        self.parallel, self.scheduler = parallel, scheduler
        self._studies = [
            optuna.create_study(direction="maximize", sampler=SAMPLERS[sampler](number, parallel))
            for number in range(len(points))
        ]
        self._open: list[list[tuple[optuna.Trial, dict[str, float | None]]]] = [[] for _ in points]
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
        """Queue a method's next proposals, passing over what is finished from before."""
        while self._left[method] and not self._open[method]:
            asked: list[Planned] = []
            for _ in range(min(self.parallel, self._left[method])):
                self._left[method] -= 1
                point = self.points[method]
                trial = self._studies[method].ask({key: distribution(interval) for key, interval in point.intervals})
                runs = plan(point, [_drawn(key, each, trial.params[key]) for key, each in point.intervals], self.seeds)
                self._open[method].append((trial, {planned.name: None for planned in runs}))
                asked += runs
            self.proposed += asked
            if self.scheduler is not None:
                self.scheduler.enter(asked)
            for planned in asked:
                best = self._best(planned)
                if best is None:
                    self._queue.append((method, planned))
                else:
                    self.finished += 1
                    if self.scheduler is not None:
                        self.scheduler.ended(planned.name)
                    self._tell(method, planned.name, best)

    def _best(self, planned: Planned) -> float | None:
        stopped = self.scheduler.stopped.get(planned.name) if self.scheduler else None
        if stopped is not None:
            return stopped.best
        outcome = read_outcome(self.storage, planned.name)
        same = outcome is not None and not differences(outcome.made_of, self.made_of(planned.config))
        return mean_best(outcome) if outcome is not None and same else None

    def _tell(self, method: int, name: str, best: float) -> None:
        """Note a result; Optuna hears of a method's proposals together, in their order."""
        for _, values in self._open[method]:
            if name in values:
                values[name] = best
        if any(value is None for _, values in self._open[method] for value in values.values()):
            return
        for trial, values in self._open[method]:
            self._studies[method].tell(trial, sum(filter(None, values.values())) / len(values))
        self._open[method] = []

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
