"""Runs tasks as trials of Ray Tune: for capacity that trials share, and the user's own callbacks and schedulers."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ray import cloudpickle, tune
from ray.tune import Callback, FailureConfig, RunConfig, Stopper, TuneConfig
from ray.tune.search import ConcurrencyLimiter, Searcher
from ray.tune.trainable.function_trainable import wrap_function

from pyrite.cluster.executors.hooks import HookErrors, SafeCallback
from pyrite.cluster.executors.lost_process import bad_input, is_loss, killed_processes, leave
from pyrite.cluster.executors.task import (
    AGAIN,
    BEGUN,
    ERROR,
    FINAL,
    NOTHING,
    STEP,
    WITHIN,
    Attempts,
    Context,
    Done,
    Executor,
    Task,
    TaskLost,
    Tasks,
    Wait,
    Watch,
    bound,
    built,
)
from pyrite.cluster.executors.tune_schedulers import Retries, Stopping, name_of, placement_of
from pyrite.cluster.executors.waiting import Ask, nodes_alive, waits_said
from pyrite.cluster.executors.worker import origin_of, portable
from pyrite.cluster.limits import LINE_EVERY_S, ROOM_LOOK_S
from pyrite.cluster.output.storage import Unwritable, unwritable
from pyrite.cluster.output.throttle import Throttle
from pyrite.ranking.whole_file import FULL

THREAD_END_S = "120"
"""Time that a trial's thread may take to end."""
NEVER_S = "1e9"
MAX_PENDING = "200"
"""Trials that wait for room at once, which an autoscaler sees. Tune would let those of a searcher wait one by one."""
AFTER_ANOTHER = "another process was killed for memory, after which Ray Tune ends all"
"""Why a run starts again that was not lost itself."""
Capacity = Callable[[Sequence[Mapping[str, float]]], int | None]
"""Returns how many tasks fit on a cluster's nodes, if Tune cannot know; None leaves it to Tune."""


class TuneExecutor(Executor):
    """Runs each task in a trial of Ray Tune, in processes that trials reuse.

    Tune's own files are in a temporary folder, which is deleted at the end.

    Args:
        shared: further keyword arguments of every body; each `Once` is built once per trial.
        concurrent: tasks at once; None is as many as there is room for.
        capacity: see `Capacity`.
        stopping: stops trials by what they report.
        name: the name of the actors on Ray's dashboard.
    """

    def __init__(
        self,
        shared: Mapping[str, Any] = NOTHING,
        concurrent: int | None = None,
        capacity: Capacity = lambda nodes: None,
        stopping: Stopping | None = None,
        callbacks: Sequence[Callback] = (),
        name: str = "Trial",
    ) -> None:
        self.shared, self.concurrent, self.capacity = dict(shared), concurrent, capacity
        self.stopping, self.name, errors = stopping, name, HookErrors()
        self.callbacks = [SafeCallback(each, errors) for each in callbacks]

    def _run(self, source: Tasks, watch: Watch, retries: int, stop: Callable[[], bool]) -> Iterator[Done]:
        """Run tasks. `watch` and `Tasks.ended` are called as tasks end, and results are yielded at the end of all."""
        _set_environment()
        scheduler = Retries(self.stopping)
        trials = _Trials(source, watch, stop, scheduler)
        with waits_said(trials.asks, watch.waits):
            while not self._ended(trials, retries):
                pass
        if (error := trials.error or scheduler.stopping.refused) is not None:
            raise error
        yield from trials.done

    def _ended(self, trials: _Trials, retries: int) -> bool:
        """Run what is left in an experiment of Tune, and return whether it came to its end.

        Tune ends the experiment if Ray kills a trial's process for memory: it takes the `OutOfMemoryError` for one of
        its errors. What ran then is queued again.
        """
        with tempfile.TemporaryDirectory(prefix="pyrite-tune-", ignore_cleanup_errors=True) as folder:
            try:
                self._tuner(trials, retries, folder).fit()
            except Exception as error:
                chain = list(_chain(error))
                _refuse_full(chain, folder)
                if trials.error or trials.scheduler.stopping.refused:
                    return True
                loss = next((each for each in chain if isinstance(each, Exception) and is_loss(each)), None)
                if loss is None:
                    raise
                trials.run_again(loss)
                return False
        return True

    def _tuner(self, trials: _Trials, retries: int, folder: str) -> tune.Tuner:
        limiter = ConcurrencyLimiter(trials, self.concurrent or sys.maxsize)
        events = _Events(trials, limiter, None if self.concurrent else self.capacity)
        return tune.Tuner(
            self._trainable(retries),
            tune_config=TuneConfig(
                search_alg=limiter,
                scheduler=trials.scheduler,
                num_samples=-1,  # until the search has finished
                reuse_actors=True,
                trial_name_creator=name_of,
                trial_dirname_creator=name_of,
            ),
            run_config=RunConfig(
                name="trials",
                storage_path=folder,
                failure_config=FailureConfig(max_failures=-1),  # `Retries` gives trials up
                callbacks=[events, *self.callbacks],
                stop=events,
                verbose=0,
            ),
        )

    def _trainable(self, retries: int) -> Any:
        """Return what an actor of Tune runs, under a name that people recognise; Tune calls all ImplicitFunc."""

        def trial(config: dict[str, Any], **shared: Any) -> None:
            # Before its process takes the next trial Tune waits for this one's thread to end: 2 s, after which it drops
            # the next one and nothing reports it. A busy machine may take longer.
            os.environ["TUNE_FUNCTION_THREAD_TIMEOUT_S"] = THREAD_END_S
            attempt(config["task"], shared, retries, tune.report)

        resources = tune.with_resources(tune.with_parameters(trial, **self.shared), _placement)
        made = wrap_function(resources, self.name)
        made.__name__ = made.__qualname__ = self.name
        return made


def attempt(content: bytes, shared: Mapping[str, Any], retries: int, report: Callable[[dict[str, Any]], None]) -> None:
    """Run a task's body, again after its errors. It ends with a report, never an exception, unless it is lost.

    Args:
        content: the pickled task and its origin.
    """
    report({BEGUN: True})  # Tune adds the node to this report
    attempts, within = Attempts(retries), Throttle(LINE_EVERY_S)

    def report_progress(content: dict[str, Any]) -> None:
        if content.keys() != {WITHIN} or within.due():  # each costs Tune a result
            report(content)

    while True:
        try:
            task, origin = cloudpickle.loads(content)
            origin.enter()
            value = bound(task, built(shared), Context(report_progress, leave))()
            report({**(value if isinstance(value, Mapping) else {}), FINAL: True})
            return
        except Exception as error:
            if is_loss(error):
                raise  # Tune starts the trial again
            error = bad_input(error)
            content_of_error = cloudpickle.dumps(portable(error))
            if attempts.after_error("", error) is not None:
                report({ERROR: content_of_error, FINAL: True})
                return
            report({AGAIN: content_of_error})
            _leave_broken_process()


def _leave_broken_process() -> None:
    """End the process if CUDA is in use, whose errors stay in it. Tune starts another, as after a loss."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        os._exit(1)


def _placement(config: Mapping[str, Any]) -> tune.PlacementGroupFactory:
    task, _ = cloudpickle.loads(config["task"])
    return placement_of(task.resources)


def _refuse_full(chain: Iterable[BaseException], folder: str) -> None:
    """Refuse a disk without room for what Ray Tune writes."""
    for each in chain:
        if isinstance(each, OSError) and each.errno in FULL:
            raise unwritable(each, each.filename or folder, "set TMPDIR to another folder") from None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and what it came from."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


class _Trials(Searcher):
    """The tasks of one call of `run`, as a searcher of Tune.

    Attributes:
        error: what was raised where an end was recorded, which ends all trials.
    """

    def __init__(self, tasks: Tasks, watch: Watch, stop: Callable[[], bool], scheduler: Retries) -> None:
        super().__init__(metric="best", mode="max")
        self.tasks, self.watch, self.stop, self.scheduler = tasks, watch, stop, scheduler
        self.running: dict[str, Task] = {}
        self.places: dict[str, tuple[str, int]] = {}
        """Address and process of each trial, by its id, once it has reported."""
        self.again: list[Task] = []
        self.done: list[Done] = []
        self.error: Exception | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune pickles its searcher to restore an experiment; ours are planned again instead

    def suggest(self, trial_id: str) -> Any:
        stops = self.error is not None or self.stop()
        task = self.again.pop(0) if self.again else None if stops else self.tasks.next()
        if isinstance(task, Task):
            task = replace(task, resources=self.scheduler.larger.get(task.key, task.resources))
            self.running[trial_id] = task
            # As bytes, because Tune copies mappings many times and keeps them.
            return {"run": {"name": task.key, **task.facts}, "task": cloudpickle.dumps((task, origin_of(task)))}
        return None if task is Wait.WAIT else Searcher.FINISHED

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        task, reported = self.running.pop(trial_id), self.scheduler.results.pop(trial_id, {})
        raised = self.scheduler.given_up.get(task.key)
        if error and raised is None:
            raised = TaskLost.of(task.key, 1, "no reason is known")
        elif ERROR in reported:
            raised = cloudpickle.loads(reported[ERROR])
        self._end(Done(task, reported, raised, raised is None and FINAL not in reported))

    def asks(self) -> list[Ask]:
        """Return what the trials of now take; each distinct one once. Called from another thread."""
        bundles = (task.resources.bundles() for task in list(self.running.values()))
        return list({str(each): Ask("a run", each) for each in bundles}.values())

    def run_again(self, loss: Exception) -> None:
        """Queue the tasks that ran when Tune ended: those whose processes were killed as lost, the others as they are.

        Raises:
            Exception: the loss, if it ended Tune again and again and no process is known to be killed.
        """
        killed = killed_processes()
        lost = {trial_id for trial_id in self.running if self.places.get(trial_id) in killed}
        if not lost and self.scheduler.attempts.after_loss("", str(loss)) is not None:
            raise loss
        for trial_id, task in self.running.items():
            if trial_id in lost:
                self.scheduler.lost(task.key, loss, task.resources)
                if (given_up := self.scheduler.given_up.get(task.key)) is not None:
                    self._end(Done(task, error=given_up))
                    continue
                self.watch.retrying(task.key, self.scheduler.losses[task.key].reason)
            else:
                self.watch.moved(task.key, AFTER_ANOTHER)
            self.again.append(task)
        self.running, self.places = {}, {}

    def _end(self, done: Done) -> None:
        self.done.append(done)
        try:
            self.watch.ended(done)
            self.tasks.ended(done)
        except Exception as error:  # which Tune would take for one of the trial, and run it again
            self.error = self.error or error

    def save(self, checkpoint_path: str) -> None:
        """Keep nothing."""

    def restore(self, checkpoint_path: str) -> None:
        """See `save`."""


class _Events(Callback, Stopper):
    """Notifies the watch of what Tune reports of trials, and lets as many run as the cluster has room for now.

    It ends all trials once one could not write, or its end could not be recorded: the results of the others could not
    be kept either.
    """

    def __init__(self, trials: _Trials, limiter: ConcurrencyLimiter, capacity: Capacity | None) -> None:
        self.trials, self.limiter, self.capacity = trials, limiter, capacity
        self._throttle = Throttle(ROOM_LOOK_S)

    def __reduce__(self) -> tuple[type[Callback], tuple[()]]:
        return (Callback, ())  # Tune pickles it to restore an experiment; a screen is no part of one

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        stopping = self.trials.scheduler.stopping
        return STEP in result and stopping.ends(self.trials.running[trial_id].key, trial_id, result)

    def stop_all(self) -> bool:
        unwritable = any(isinstance(done.error, Unwritable) for done in self.trials.done[-1:])
        return unwritable or self.trials.error is not None

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.trials.watch.started(self.trials.running[trial.trial_id])

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        if BEGUN in result:
            self.trials.places[trial.trial_id] = result["node_ip"], result["pid"]
        elif AGAIN in result:
            self.trials.watch.retrying(name_of(trial), cloudpickle.loads(result[AGAIN]))
        elif FINAL not in result:
            self.trials.watch.progress(name_of(trial), result)

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        name, scheduler = name_of(trial), self.trials.scheduler
        loss = scheduler.losses[name]
        if loss.moves:
            self.trials.watch.moved(name, str(loss.reason))
        elif name not in scheduler.given_up:
            self.trials.watch.retrying(name, loss.reason)

    def on_step_begin(self, iteration: int, trials: list[Any], **info: Any) -> None:
        if self.capacity is not None and self._throttle.due():
            self.limiter.max_concurrent = self.capacity(nodes_alive()) or sys.maxsize

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
    os.environ["TUNE_GLOBAL_CHECKPOINT_S"] = NEVER_S  # its state, which nothing restores, is written at the end alone
    for name in ("execution.experiment_state", "tune"):  # of which the second names all trials that did not end
        logging.getLogger(f"ray.tune.{name}").setLevel(logging.CRITICAL)
