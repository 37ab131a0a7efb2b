"""Lets Optuna propose runs during a study, with a separate search over the settings of each method."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING, cast

import optuna

from pyrite.analysis.methods import METHOD
from pyrite.cluster.config.override import of_keys
from pyrite.cluster.output.event_log import EventLog
from pyrite.cluster.output.provenance import content_digest
from pyrite.cluster.output.result_store import unfinished
from pyrite.cluster.plan.point import Interval
from pyrite.cluster.plan.searches import Search, Suggest, searches
from pyrite.cluster.plan.study import StudyPlan
from pyrite.cluster.plan.sweep import Planned, Point
from pyrite.cluster.plan.sweep import plan as runs_of
from pyrite.cluster.runs.outcome import mean_best
from pyrite.cluster.search.proposals import MadeOf, Proposals
from pyrite.ranking.digest import digest
from pyrite.ranking.errors import BadInput, refuse

if TYPE_CHECKING:
    from pyrite.cluster.search.schedulers import TrialStopping

EVENT = "run counts as 0"
"""The event of a run that failed, of which its search has learned."""
optuna.logging.set_verbosity(optuna.logging.WARNING)
warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)


def _seeds(found: Sequence[Search]) -> list[int]:
    """Return the seed of each search's sampler, which stays the same if other methods join the study."""
    seeds: list[int] = []
    for search in found:
        names = sorted(of_keys(search.method, (*METHOD, "objective")))
        seed = int(digest(names)[:7], 16)
        while seed in seeds:  # of methods that differ in other options
            seed += 1
        seeds.append(seed)
    return seeds


def _sampler(name: str, seed: int, parallel: int) -> optuna.samplers.BaseSampler:
    if name == "gp":  # a Gaussian process with expected improvement, for few runs and few settings
        return optuna.samplers.GPSampler(seed=seed)
    if name == "cmaes":  # evolution with an adapted covariance (Hansen 2016), for many runs and several settings
        what = "sampler=cmaes needs the package cmaes, which is not installed"
        refuse(find_spec("cmaes") is None, what, "sampler", "pip install cmaes, or choose sampler=tpe")
        return optuna.samplers.CmaEsSampler(seed=seed)
    # A Tree-structured Parzen Estimator (Bergstra et al. 2011). Simultaneous proposals avoid each other.
    return optuna.samplers.TPESampler(seed=seed, constant_liar=parallel > 1)


def _drawn(trial: optuna.Trial, name: str, interval: Interval) -> str:
    """Return the value that Optuna draws from an interval."""
    if interval.whole:
        return str(trial.suggest_int(name, round(interval.low), round(interval.high), log=interval.log))
    value = trial.suggest_float(name, interval.low, interval.high, log=interval.log)
    return f"{float(f'{value:.6g}'):g}"


class OptunaRuns(Proposals):
    """One sampler of Optuna per method, which maximises the validation measure.

    A proposal chooses among the values of swept keys, and then draws from the intervals that belong to what it chose.
    Methods alternate, and a method's proposals run with every seed before its next ones. So proposals depend only on
    the method's results, in the order in which they were proposed. With the same numbers the search is the same for any
    number of workers, and a resumed search replays what is finished. A run that failed counts as 0 in its search, also
    after a later command has repeated it: the log has it, and the proposals that followed stay the same.

    Args:
        points: the points of all methods, with their intervals.
        made_of: see `Proposals`.
        scheduler: may stop runs, which then count by their best validation.
    """

    def __init__(
        self, plan: StudyPlan, points: Sequence[Point], made_of: MadeOf, scheduler: TrialStopping | None = None
    ) -> None:
        super().__init__(plan, made_of)
        options = plan.options
        self.samples, self.parallel, self.scheduler = options["samples"], options.get("parallel", 1), scheduler
        self.examples = [runs_of(point, point.at([0.5] * len(point.intervals)), self.seeds[:1])[0] for point in points]
        self.searches = searches(points, plan.swept)
        sampler = options.get("sampler", "tpe")
        self._studies = [
            optuna.create_study(direction="maximize", sampler=_sampler(sampler, seed, self.parallel))
            for seed in _seeds(self.searches)
        ]
        url = options.get("search_storage")
        self._shown = StoredSearch(url) if url else None
        self._open: list[list[tuple[optuna.Trial, list[Planned]]]] = [[] for _ in self.searches]
        self._left = [self.samples] * len(self.searches)
        self._results: dict[str, float | None] = {}
        self._log: EventLog | None = None
        self._failed = {
            (event["run"], event["made_of"]) for event in EventLog.read(plan.storage) if event["event"] == EVENT
        }
        self._repeated = 0
        self.propose()

    @property
    def total(self) -> int:
        """Runs of the whole search; fewer if a proposal repeats an earlier one, whose runs count once."""
        return len(self.searches) * self.samples * len(self.seeds) - self._repeated

    def propose(self) -> None:
        for method in range(len(self.searches)):
            self._propose(method)

    def _propose(self, method: int) -> None:
        """Queue a method's next proposals, except those with a finished result."""
        while self._left[method] and not self._open[method]:
            count = min(self.parallel, self._left[method])
            self._left[method] -= count
            proposals = list(chain.from_iterable(self._ask(method) for _ in range(count)))
            self.proposed += proposals
            self.on_total(self.total)
            if self.scheduler is not None:
                self.scheduler.enter(proposals)
            for planned in proposals:
                best = self._best(planned)
                if best is None:
                    self._queue.append(planned)
                else:
                    self.finished += 1
                self._results[planned.name] = 0.0 if self._key(planned) in self._failed else best
            self._tell(method)

    def _ask(self, method: int) -> list[Planned]:
        """Return the runs of a method's next settings, without those that an earlier proposal has."""
        trial, search = self._studies[method].ask(), self.searches[method]
        suggest = cast("Suggest", trial.suggest_categorical)  # which is overloaded
        point = search.choose(suggest)
        drawn = [f"{key}={_drawn(trial, search.parameter(key, point), interval)}" for key, interval in point.intervals]
        runs = runs_of(point, drawn, self.seeds)
        self._open[method].append((trial, runs))
        new = unfinished(runs, self._results)
        self._results |= {planned.name: None for planned in new}
        self._repeated += len(runs) - len(new)
        return new

    def _best(self, planned: Planned) -> float | None:
        stopped = self.scheduler.stopped.get(planned.name) if self.scheduler else None
        if stopped is not None:
            return stopped.best
        outcome = self.outcome(planned)
        return None if outcome is None else mean_best(outcome)

    def _tell(self, method: int) -> None:
        """Tell Optuna the results of a method's open proposals together, in their order, once all are known."""
        results = [[self._results[planned.name] for planned in runs] for _, runs in self._open[method]]
        if None in chain.from_iterable(results):
            return
        for (trial, _), values in zip(self._open[method], results, strict=True):
            told = self._studies[method].tell(trial, sum(filter(None, values)) / len(values))
            if self._shown is not None:
                self._shown.add(method, told)
        self._open[method] = []

    def start(self, log: EventLog) -> None:
        self._log = log
        if self._shown is not None:
            self._shown.create(log, self.searches)
            for method, study in enumerate(self._studies):
                for trial in study.get_trials(states=[optuna.trial.TrialState.COMPLETE]):
                    self._shown.add(method, trial)

    def _key(self, planned: Planned) -> tuple[str, str]:
        """Return the name of a run, and a digest of what its result would be built from now."""
        return planned.name, content_digest(self.made_of(planned.config))

    def receive(self, planned: Planned) -> None:
        best, key = self._best(planned), self._key(planned)
        if best is None and key not in self._failed:
            self._failed.add(key)
            if self._log is not None:
                self._log.emit(EVENT, run=key[0], made_of=key[1])
        self._results[planned.name] = 0.0 if key in self._failed else best
        for method in range(len(self.searches)):
            self._tell(method)


LONGEST_NAME = 512
_log = logging.getLogger(__name__)


class StoredSearch:
    """One study of Optuna per method in a database, which other searches may use too.

    It only receives results: what is proposed next never depends on it. A resumed search replaces its own studies.

    Args:
        url: the storage, such as `sqlite:///search.db`.
    """

    def __init__(self, url: str) -> None:
        # Optuna would read pickles from it.
        refuse(url.startswith("redis"), "is no database of SQL", url, "give a URL such as sqlite:///search.db")
        self.url = url
        self._studies: list[optuna.Study] = []
        with self._opening():
            self._storage = optuna.storages.get_storage(url)

    def create(self, log: EventLog, searches: Sequence[Search]) -> None:
        """Create the studies of searches, instead of those that an earlier command has left.

        A name ends with a digest of the output folder, by its path and its first event: `out=o` is the name of a folder
        in many places, and a path of many machines.
        """
        log.flush()
        folder, began = log.storage.path(""), log.read(log.storage)[:1]
        with self._opening():
            known = optuna.get_all_study_names(self._storage)
            for search in searches:
                words = [*filter(None, [search.points[0].label]), *search.method]
                intervals = sorted({str(each) for point in search.points for each in point.intervals})
                end = f" {digest([folder, began, words, intervals])}"
                for name in known:
                    if name.endswith(end):
                        optuna.delete_study(study_name=name, storage=self._storage)
                name = " ".join([log.storage.place, *words])[: LONGEST_NAME - len(end)] + end
                self._studies.append(optuna.create_study(study_name=name, storage=self._storage, direction="maximize"))

    def add(self, method: int, trial: optuna.trial.FrozenTrial) -> None:
        """Copy a trial with its result, once there is a study for it. If the storage is lost, the search continues."""
        try:
            for study in self._studies[method : method + 1]:
                study.add_trial(trial)
        except Exception as error:
            _log.warning("search.storage lacks trial %d: %s", trial.number, error)

    @contextmanager
    def _opening(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # of any database and driver
            reason = " ".join(str(error).split())[:200]
            raise BadInput(f"can't be opened ({reason})", self.url, "give a URL such as sqlite:///search.db") from None
