"""Runs tasks as trials of Ray Tune: for capacity that trials share, and the user's own callbacks and schedulers."""

from __future__ import annotations

import itertools
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import ray
from ray import cloudpickle, tune
from ray.tune import Callback, FailureConfig, PlacementGroupFactory, RunConfig, Stopper, TuneConfig
from ray.tune.search import ConcurrencyLimiter, Searcher
from ray.tune.trainable.function_trainable import wrap_function

from pyrite.cluster.executors.lost_process import is_loss, leave
from pyrite.cluster.executors.task import (
    AGAIN,
    ERROR,
    FINAL,
    Attempts,
    Context,
    Done,
    Executor,
    Scheduler,
    Task,
    TaskLost,
    Tasks,
    Wait,
    Watch,
    bound,
    built,
)
from pyrite.cluster.executors.tune_failures import FaultTolerantScheduler
from pyrite.cluster.executors.worker import origin_of, portable
from pyrite.cluster.output.storage import Storage, Unwritable, unwritable
from pyrite.cluster.output.throttle import Throttle
from pyrite.ranking.whole_file import FULL

_NUMBERS = itertools.count()
THREAD_END_S = "120"
"""Time that a trial's thread may take to end."""
MAX_PENDING = "200"
"""Trials that wait for room at once, which an autoscaler sees. Tune would let those of a searcher wait one by one."""
LOOK_S = 5.0
"""Pause between two looks at how much room the cluster has."""
Capacity = Callable[[Mapping[str, float]], int | None]
"""Returns how many tasks fit into a cluster's resources, if Tune cannot know; None leaves it to Tune."""


class TuneExecutor(Executor):
    """Runs each task in a trial of Ray Tune, in processes that trials reuse.

    Args:
        storage: the output folder, in which Tune keeps its files.
        shared: further keyword arguments of every body; each `Once` is built once per trial.
        concurrent: tasks at once; None is as many as there is room for.
        capacity: see `Capacity`.
        name: the name of the actors on Ray's dashboard.
    """

    def __init__(
        self,
        storage: Storage,
        shared: Mapping[str, Any] | None = None,
        concurrent: int | None = None,
        capacity: Capacity = lambda resources: None,
        scheduler: Scheduler | None = None,
        callbacks: Sequence[Callback] = (),
        name: str = "Trial",
    ) -> None:
        self.storage, self.shared, self.concurrent, self.capacity = storage, dict(shared or {}), concurrent, capacity
        self.scheduler, self.callbacks, self.name = scheduler, callbacks, name

    def _run(self, source: Tasks, watch: Watch, retries: int, stop: Callable[[], bool]) -> Iterator[Done]:
        """Run tasks. `watch` and `Tasks.ended` are called as tasks end, and results are yielded at the end of all."""
        _set_environment()
        scheduler = FaultTolerantScheduler(self.scheduler)
        trials = _Trials(source, watch, stop, scheduler)
        limiter = ConcurrencyLimiter(trials, self.concurrent or sys.maxsize)
        events = _Events(trials, limiter, None if self.concurrent else self.capacity)
        name = f"{next(_NUMBERS)}-{os.getpid()}"
        tuner = tune.Tuner(
            self._trainable(retries),
            tune_config=TuneConfig(
                search_alg=limiter,
                scheduler=scheduler,
                num_samples=-1,  # until the search has finished
                reuse_actors=True,
                trial_name_creator=_trial_name,
                trial_dirname_creator=_trial_name,
            ),
            run_config=RunConfig(
                name=f"tune/{name}" if self.storage.local else f"tune-{name}",
                storage_path=self.storage.path("").rstrip("/") if self.storage.local else self.storage.place,
                failure_config=FailureConfig(max_failures=retries),
                callbacks=[events, *self.callbacks],
                stop=events,
                verbose=0,
            ),
        )
        try:
            tuner.fit()
        except Exception as error:
            _refuse_full_disk(error, self.storage)
            raise
        yield from trials.done

    def _trainable(self, retries: int) -> Any:
        """Return what an actor of Tune runs, under a name that people recognise; Tune calls all ImplicitFunc."""

        def trial(config: dict[str, Any], **shared: Any) -> None:
            # Before its process takes the next trial Tune waits for this one's thread to end: 2 s, after which it drops
            # the next one and nothing reports it. A busy machine may take longer.
            os.environ["TUNE_FUNCTION_THREAD_TIMEOUT_S"] = THREAD_END_S
            task, origin = cloudpickle.loads(config["task"])
            origin.enter()
            attempt(task, shared, retries, tune.report)

        made = wrap_function(tune.with_resources(tune.with_parameters(trial, **self.shared), placement_of), self.name)
        made.__name__ = made.__qualname__ = self.name
        return made


def attempt(task: Task, shared: Mapping[str, Any], retries: int, report: Callable[[dict[str, Any]], None]) -> None:
    """Run a task's body, again after its errors. It ends with a report, never an exception, unless it is lost."""
    attempts = Attempts(retries)
    while True:
        try:
            value = bound(task, built(shared), Context(report, leave))()
            report({**(value if isinstance(value, Mapping) else {}), FINAL: True})
            return
        except Exception as error:
            if is_loss(error):
                raise  # Tune starts the trial again
            content = cloudpickle.dumps(portable(error))
            if attempts.after_error(task.key, error) is not None:
                report({ERROR: content, FINAL: True})
                return
            report({AGAIN: content})
            _leave_broken_process()


def _leave_broken_process() -> None:
    """End the process if CUDA is in use, whose errors stay in it. Tune starts another, as after a loss."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        os._exit(1)


def placement_of(config: Mapping[str, Any]) -> PlacementGroupFactory:
    """Return what a trial takes of the cluster."""
    task, _ = cloudpickle.loads(config["task"])
    resources = task.resources
    return PlacementGroupFactory([resources.bundle(), *resources.beside], strategy=resources.strategy)


def _trial_name(trial: Any) -> str:
    return str(trial.config["run"]["name"])


class _Trials(Searcher):
    """The tasks of one call of `run`, as a searcher of Tune."""

    def __init__(self, tasks: Tasks, watch: Watch, stop: Callable[[], bool], scheduler: FaultTolerantScheduler) -> None:
        super().__init__(metric="best", mode="max")
        self.tasks, self.watch, self.stop, self.scheduler = tasks, watch, stop, scheduler
        self.running: dict[str, Task] = {}
        self.done: list[Done] = []

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune pickles its searcher to restore an experiment; ours are planned again instead

    def suggest(self, trial_id: str) -> Any:
        task = None if self.stop() else self.tasks.next()
        if isinstance(task, Task):
            self.running[trial_id] = task
            # As bytes, because Tune copies mappings many times and keeps them.
            return {"run": {"name": task.key, **task.facts}, "task": cloudpickle.dumps((task, origin_of(task)))}
        return None if task is Wait.WAIT else Searcher.FINISHED

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        task, reported, raised = self.running.pop(trial_id), self.scheduler.results.pop(trial_id, {}), None
        if error:
            raised = self.scheduler.errors.pop(trial_id, None) or TaskLost.of(task.key, 1, "no reason is known")
        elif ERROR in reported:
            raised = cloudpickle.loads(reported[ERROR])
        done = Done(task, reported, raised, raised is None and task.key in self.scheduler.stopped)
        self.watch.ended(done)
        self.tasks.ended(done)
        self.done.append(done)

    def save(self, checkpoint_path: str) -> None:
        """Keep nothing."""

    def restore(self, checkpoint_path: str) -> None:
        """See `save`."""


class _Events(Callback, Stopper):
    """Notifies the watch of what Tune reports of trials, and lets as many run as the cluster has room for now.

    It ends all trials once one could not write: the results of the others could not be kept either.
    """

    def __init__(self, trials: _Trials, limiter: ConcurrencyLimiter, capacity: Capacity | None) -> None:
        self.trials, self.limiter, self.capacity = trials, limiter, capacity
        self._throttle = Throttle(LOOK_S)

    def __reduce__(self) -> tuple[type[Callback], tuple[()]]:
        return (Callback, ())  # Tune pickles it to restore an experiment; a screen is no part of one

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        return any(isinstance(done.error, Unwritable) for done in self.trials.done[-1:])

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.trials.watch.started(self.trials.running[trial.trial_id])

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        if AGAIN in result:
            self.trials.watch.retrying(_trial_name(trial), cloudpickle.loads(result[AGAIN]))
        elif FINAL not in result:
            self.trials.watch.progress(_trial_name(trial), result)

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        if trial.moves:
            self.trials.watch.moved(_trial_name(trial), str(trial.reason))
        else:
            self.trials.watch.retrying(_trial_name(trial), trial.reason)

    def on_step_begin(self, iteration: int, trials: list[Any], **info: Any) -> None:
        if self.capacity is not None and self._throttle.due():
            self.limiter.max_concurrent = self.capacity(ray.cluster_resources()) or sys.maxsize

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        self.trials.watch.tick()


def _set_environment() -> None:
    # Tune's own files of each result (CSV, JSON) cost more than a short epoch, and ours hold more; its handler of
    # Ctrl-C would end the process before we can print how to continue.
    os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"
    os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"
    os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
    os.environ["RAY_CHDIR_TO_TRIAL_DIR"] = "0"  # relative paths of the configuration stay valid
    os.environ.setdefault("TUNE_MAX_PENDING_TRIALS_PG", MAX_PENDING)
    os.environ["TUNE_DISABLE_STRICT_METRIC_CHECKING"] = "1"  # a trial that failed has no `best`
    os.environ["TUNE_PRINT_ALL_TRIAL_ERRORS"] = "0"  # the watch logs them
    # Tune's state, which we never restore: if it can't be written, neither can ours, and that is reported.
    logging.getLogger("ray.tune.execution.experiment_state").setLevel(logging.CRITICAL)


def _refuse_full_disk(error: BaseException | None, storage: Storage) -> None:
    """Raise `Unwritable` if Tune met a full disk with its own files."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in FULL:
            raise unwritable(error, error.filename or storage.place, "choose another out=") from None
        error = error.__cause__ or error.__context__
