"""Estimates the time that the runs of a study take: before it starts, from their sizes, and by a few of their steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from rich.console import Console

from pyrite.cluster.commands.study_methods import distinct, seedless
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.groups import CHOICES
from pyrite.cluster.executors.resources import Resources
from pyrite.cluster.executors.task import Executor, Task, TaskLost
from pyrite.cluster.limits import LOCAL_PROCESSES
from pyrite.cluster.output.terminal import counted, print_lines
from pyrite.cluster.plan.size import run_seconds, saved
from pyrite.cluster.plan.sweep import Planned
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.search.proposals import Proposals
from pyrite.cluster.telemetry.live_table import duration
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.cores import cores
from pyrite.ranking.errors import BadInput

if TYPE_CHECKING:
    from pyrite.cluster.training.estimate import Estimate, RunTime

TIME = "pyrite.cluster.training.estimate:time_method"
SHORTER = ("scale=tiny", "training.max_epochs=1", "limits.examples=100", "origin=bm25")
"""Overrides whose time is printed next to that of the study, if they are not typed and shorten it."""
NOT_SHORTER = "shorter: fewer methods, seeds or documents; limits save little"
SHORT = 0.8
"""The share of its time that a shorter study takes at most."""
BUSY = 0.9
"""The share of a core below which other programs slow the timing down."""


@dataclass(frozen=True)
class Timing:
    """The way in which methods are timed before the first run.

    Args:
        executor: runs the timing where the runs will be; its bodies get `opened`.
        at_once: the number of runs that are trained at once.
    """

    executor: Executor
    at_once: int

    def times(self, methods: Sequence[tuple[dict[str, Any], Mapping[str, str]]]) -> list[RunTime | None]:
        """Return the time of a run of each method, given its configuration and its parts' keys.

        None for one whose timing failed: its runs fail too, and are reported.

        Raises:
            BadInput: if an input is bad, which ends the command before its first run.
        """
        tasks = [
            Task(str(number), TIME, {"config": config, "keys": keys}, Resources.of_run(config["resources"]))
            for number, (config, keys) in enumerate(methods)
        ]
        ended = {each.task.key: each for each in self.executor.run(tasks, retries=0)}
        bad = [each for each in ended.values() if isinstance(each.error, BadInput) and type(each.error) is not TaskLost]
        for done in bad:
            done.result()
        return [ended[task.key].value for task in tasks]


@dataclass(frozen=True)
class RunsAhead:
    """The runs of a study that are left.

    Args:
        waiting: those that are known.
        examples: one per method whose runs are proposed later.
        times: how many runs of each example may follow.
    """

    waiting: Sequence[Planned]
    examples: Sequence[Planned]
    times: float

    @classmethod
    def of(cls, waiting: Sequence[Planned], proposals: Proposals) -> RunsAhead:
        """Return those of a study, by what it has proposed so far."""
        left = proposals.total - proposals.finished
        return cls(waiting, proposals.examples, left / max(len(proposals.examples), 1))

    @property
    def known(self) -> list[Planned]:
        """All runs that wait, and one per method whose runs are proposed later."""
        return [*self.waiting, *self.examples]

    def processes(self, most: int | None) -> int:
        """Return how many runs a command trains at once without Ray, at most `most`."""
        cores_each = max((planned.config["resources"]["cpu"] for planned in self.known), default=1)
        return max(1, min(most or LOCAL_PROCESSES + 1, LOCAL_PROCESSES + 1, int(cores() // cores_each)))

    def saved(self, collections: Mapping[str, Collection], at_once: int) -> float:
        """Return the seconds that they take less on all cores than in the processes of this command."""
        times = [1.0] * len(self.waiting) + [self.times] * len(self.examples)
        seconds = [_seconds(run, collections[run.name]) for run in self.known]
        known = [each for each in seconds if each is not None]
        total = sum(count * each for count, each in zip(times, known, strict=True)) if known == seconds else None
        return saved(total, at_once)

    def print_time(
        self, artifacts: Artifacts, timing: Timing, typed: Sequence[str], collections: Mapping[str, Collection],
        console: Console,
    ) -> float | None:  # fmt: skip
        """Time a few steps of each method, print how long all runs take, and return it; None if nothing can be timed.

        Args:
            typed: the user's overrides.
        """
        from pyrite.cluster.training.estimate import Estimate, can_be_timed

        methods = [each for each in distinct(self.known) if can_be_timed(each.config)]
        if not methods:
            return None
        print_lines(console, f"timing a few steps of {counted(len(methods), 'method')} …")
        timed = timing.times([(each.config, artifacts.keys(each.config)) for each in methods])
        times = {seedless(each): time for each, time in zip(methods, timed, strict=True)}
        runs = [*self.waiting, *chain(*([each] * round(self.times) for each in self.examples))]
        estimate = Estimate([times.get(seedless(each)) for each in runs], timing.at_once)
        if estimate.seconds is None:
            return None
        shorter = {
            override: estimate.reduced([compose([*each.overrides, override]) for each in runs]).seconds or 0.0
            for override in SHORTER if override not in typed
        }  # fmt: skip
        largest = max(collections[each.name].size for each in self.known)
        print_lines(console, *_time_lines(estimate, shorter, largest))
        return estimate.seconds


def _time_lines(estimate: Estimate, shorter: Mapping[str, float], documents: int) -> list[str]:
    """Return lines on how long runs take, why, and which overrides make them shorter.

    Args:
        shorter: the seconds with each override.
        documents: the documents of the largest collection.
    """
    seconds = estimate.seconds or 0.0
    line = f"{counted(len(estimate.times), 'run')}, about {duration(seconds)} at most"
    if estimate.share < BUSY:
        line += f" while other programs use the processor (about {duration(seconds * estimate.share)} without them)"
    read = f"all {documents:,} documents" if estimate.reads_all else "documents"
    parts = {
        f"trains on {counted(estimate.examples, 'pair')}": 1 - estimate.reading,
        f"reads {read} to validate and test": estimate.reading,
    }
    (first, share), (second, rest) = sorted(parts.items(), key=lambda part: -part[1])
    line += f"; {share:.0%} of it {first}, {rest:.0%} {second}"
    less = [f"{name} about {duration(time)}" for name, time in shorter.items() if time <= SHORT * seconds]
    advice = f"shorter: {', '.join(less)}" if less else NOT_SHORTER
    return [line, advice]


def _seconds(run: Planned, collection: Collection) -> float | None:
    """Return about how long a run takes, by its sizes; None if that is unknown."""
    return run_seconds(run.config, run.config[CHOICES]["ranker"], len(collection.queries), len(collection.judgements))
