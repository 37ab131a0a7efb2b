"""Where Ray's memory monitor kills a trial, those that had not ended run again, fewer at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from ray.exceptions import OutOfMemoryError, RayActorError
from ray.tune import Callback
from ray.tune.search import Searcher

from cluster.output.event_log import EventLog
from cluster.tune.live_table import LiveTable

KILLED = "killed by Ray's memory monitor"
LOW = "node running low on memory"
"""Ray's words."""
REMEDY = "give it more memory, or make it smaller: training.batch_size, ranker.preset, scale"


def killed_for_memory(error: BaseException | None) -> bool:
    """Whether an error says that the memory monitor has ended a process.

    Where it met a call, Tune does not know the error, and gives up over it with a RuntimeError; where it met the start
    of the process, it is one like those of any other end, and says so in its text alone.
    """
    return isinstance(error, OutOfMemoryError) or (isinstance(error, RayActorError) and LOW in str(error))


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what led to it: Tune wraps what its callbacks and trials raise in errors of its own."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


class UnendedRuns(Searcher):
    """The runs of a search; those that Tune was stopped over are handed out again.

    Args:
        search: proposes runs.
    """

    def __init__(self, search: Searcher) -> None:
        super().__init__(metric=search.metric, mode=search.mode)
        self.search = search
        self._open: dict[str, tuple[str, dict[str, Any]]] = {}  # the id that the search knows a trial by, and the run
        self._again: list[tuple[str, dict[str, Any]]] = []

    def __getstate__(self) -> dict[str, Any]:
        return {}  # as of the search

    @property
    def names(self) -> list[str]:
        """Of the runs that were handed out and have not ended."""
        return [config["run"]["name"] for _, config in self._open.values()]

    def again(self, without: str | None = None) -> None:
        """Hand out once more what has not ended, but for one that has failed for good."""
        for known, config in self._open.values():
            if config["run"]["name"] == without:
                self.search.on_trial_complete(known, error=True)
            else:
                self._again.append((known, config))
        self._open = {}

    def suggest(self, trial_id: str) -> Any:
        """Tune asks for the next run."""
        known, config = self._again.pop(0) if self._again else (trial_id, self.search.suggest(trial_id))
        if isinstance(config, dict):
            self._open[trial_id] = known, config
        return config

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Tune tells that a run ended."""
        known, _ = self._open.pop(trial_id)
        self.search.on_trial_complete(known, result, error)

    def save(self, checkpoint_path: str) -> None:
        """Nothing to keep."""

    def restore(self, checkpoint_path: str) -> None:
        """See `save`."""


class Pressure:
    """How many trials memory has room for, which is found out by trying.

    A kill ends the round of trials that it happens in: all of them go on from their last states in the next one, in
    which half as many run at once. It counts against `retries` only where a run is killed alone.

    Args:
        runs: of the study.
        options: `concurrent` and `retries` of the study.
        table: knows what runs, and is told what failed.
        events: of the study; None writes nothing down.
    """

    def __init__(self, runs: UnendedRuns, options: dict[str, Any], table: LiveTable, events: EventLog | None) -> None:
        self.runs, self.table, self.events = runs, table, events
        self.limit: int | None = options["concurrent"]
        self.retries = options["retries"]
        self.errors: dict[str, str] = {}
        self._alone: Counter[str] = Counter()

    def relieve(self) -> None:
        """Make the next round smaller."""
        running, failed = dict(self.table.running), None
        if self.limit == 1:
            (name,) = running or self.runs.names
            self._alone[name] += 1
            failed = name if self._alone[name] > self.retries else None
            if failed:
                self.errors[name] = f"{KILLED} although it ran alone; {REMEDY}"
                self.table.done, self.table.failed = self.table.done + 1, self.table.failed + 1
        else:
            self.limit = max(1, len(running) // 2)
            self._say(f"memory is short with {len(running)} trials at once; from now on {self.limit} at a time")
        for name, watched in running.items():
            self._tell(name, "run failed" if name == failed else "run lost", watched.epoch)
        self.table.retried += len(running) - (failed is not None)
        self.table.running.clear()
        self.runs.again(without=failed)

    def _say(self, line: str) -> None:
        self.table.console.print(line, soft_wrap=True, markup=False)
        if self.events is not None:
            self.events.emit("memory short", line=line, concurrent=self.limit)

    def _tell(self, name: str, event: str, reached: int) -> None:
        if self.events is not None:
            reason = f"{KILLED}, or stopped since it killed another"
            self.events.emit(event, run=name, reason=reason, unit=self.table.unit, reached=reached)


class Failures(Callback):
    """The errors of trials that failed for good, by their runs' names, over all rounds."""

    def __init__(self, errors: dict[str, str]) -> None:
        self.errors = errors

    def __reduce__(self) -> tuple[type[Callback], tuple[()]]:
        return (Callback, ())  # Tune pickles its callbacks to restore an experiment; a study is planned again

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.errors[trial.config["run"]["name"]] = trial.why
