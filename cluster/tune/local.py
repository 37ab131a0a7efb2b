"""Runs runs in this process, for plans that are smaller than the start of Ray."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any

from cluster.output.storage import Storage
from cluster.telemetry.tracking.tracking import Tracking
from cluster.telemetry.training_metrics import study_of
from cluster.tune.attempts import attempt
from cluster.tune.live_table import LiveTable
from cluster.tune.progress import STEP, reached_by
from cluster.tune.run_source import RunSource
from cluster.tune.run_watch import RunWatch
from cluster.tune.search_scheduler import SearchScheduler

Report = Callable[[dict[str, Any]], None]
"""Takes what a run reports (`cluster.tune.progress`)."""


class _Ended(BaseException):
    """The command has ended while a run was going on in a thread of its own."""


class _Stopped(BaseException):
    """The scheduler of a search has stopped the run."""


def run_locally(
    body: Callable[[dict[str, Any], Report], None],
    source: RunSource,
    storage: Storage,
    retries: int,
    table: LiveTable,
    tracking: Tracking | None = None,
    at_once: int | Callable[[], int] = 1,
    scheduler: SearchScheduler | None = None,
) -> dict[str, str]:
    """Run runs until each has ended: what `cluster.tune.runner.run_trials` does, without Ray.

    Args:
        body: does one run, and reports.
        source: hands out the runs.
        storage: the study's folder.
        retries: of a run that raises an error.
        table: told what happens.
        tracking: of the study, with its log; None: neither.
        at_once: threads, or says how many there may be now. With 1 runs go one by one in this very thread, as what is
            no good for several wants it: torch keeps its settings a process, and Python's own loops take turns anyway.
        scheduler: of a search, with `at_once` 1.

    Returns:
        The error of each run that failed for good, by its name.

    Raises:
        Unwritable: where the output can't be written: nothing further could be kept.
    """
    watch = RunWatch(table, study_of(storage.place), tracking, scheduler=scheduler)
    lock, ended = threading.RLock(), threading.Event()

    def execute(run: dict[str, Any]) -> None:
        last: dict[str, Any] = {}

        def report(result: dict[str, Any]) -> None:
            nonlocal last
            if ended.is_set():
                raise _Ended
            last = result
            with lock:
                watch.told(run["name"], result)
            if scheduler is not None and STEP in result:
                goes_on = scheduler.reached(run["name"], reached_by(result), result["validation"])
                if not goes_on.get(run["name"], True):
                    raise _Stopped

        with lock:
            watch.started(run)
        with suppress(_Ended):
            with suppress(_Stopped):
                attempt(lambda: body(run, report), retries, report, own_process=False)
            with lock:
                watch.ended(run["name"], last)
        if scheduler is not None:
            scheduler.ended(run["name"])

    numbers = itertools.count()
    if at_once == 1:
        while isinstance(given := source.suggest(number := str(next(numbers))), dict) and watch.unwritable is None:
            execute(given["run"])
            source.on_trial_complete(number)
    else:
        room = at_once if callable(at_once) else lambda: at_once
        with ThreadPoolExecutor() as threads:
            open_: dict[Future[None], str] = {}
            try:
                while watch.unwritable is None:
                    while len(open_) < room():
                        given = source.suggest(number := str(next(numbers)))
                        if not isinstance(given, dict):
                            break
                        open_[threads.submit(execute, given["run"])] = number
                    if not open_:
                        break
                    for future in wait(open_, return_when=FIRST_COMPLETED).done:
                        future.result()
                        source.on_trial_complete(open_.pop(future))
            finally:
                ended.set()
    if watch.unwritable is not None:
        raise watch.unwritable
    return watch.errors
