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
    from pyrite.cluster.training.estimate import RunTime

TIME = "pyrite.cluster.training.estimate:time_method"
LEAST = "scale=tiny"
"""The override of the smallest scale, whose time is printed next to that of the study."""


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

    def print_time(self, artifacts: Artifacts, timing: Timing, small: bool, console: Console) -> float | None:
        """Time a few steps of each method, print how long all runs take, and return it; None if nothing can be timed.

        Args:
            small: whether to print the time of the smallest scale too.
        """
        from pyrite.cluster.training.estimate import can_be_timed, whole_seconds

        methods = [each for each in distinct(self.known) if can_be_timed(each.config)]
        if not methods:
            return None
        print_lines(console, f"timing a few steps of {counted(len(methods), 'method')} …")
        timed = timing.times([(each.config, artifacts.keys(each.config)) for each in methods])
        times = {seedless(each): time for each, time in zip(methods, timed, strict=True)}
        at_once = timing.at_once
        runs = [*self.waiting, *chain(*([each] * round(self.times) for each in self.examples))]
        found = [times.get(seedless(each)) for each in runs]
        seconds = whole_seconds(found, at_once)
        if seconds is None:
            return None
        line = f"{counted(len(runs), 'run')}, about {duration(seconds)} at most"
        if small:
            least = whole_seconds([_reduced(run, time) for run, time in zip(runs, found, strict=True)], at_once)
            line += f"; with {LEAST} about {duration(least or 0.0)}"
        print_lines(console, line)
        return seconds


def _reduced(run: Planned, time: RunTime | None) -> RunTime | None:
    """Return the times of a run at the smallest scale; None if they are unknown."""
    return None if time is None else time.reduced(compose([*run.overrides, LEAST]))


def _seconds(run: Planned, collection: Collection) -> float | None:
    """Return about how long a run takes, by its sizes; None if that is unknown."""
    return run_seconds(run.config, run.config[CHOICES]["ranker"], len(collection.queries), len(collection.judgements))
