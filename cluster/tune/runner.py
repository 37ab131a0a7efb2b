"""Runs trials on Ray Tune, in the way that every study of ours does."""

from __future__ import annotations

import itertools
import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ray import tune
from ray.tune import Callback, FailureConfig, RunConfig, TuneConfig
from ray.tune.search import ConcurrencyLimiter, Searcher
from ray.tune.trainable.function_trainable import wrap_function

from cluster.config.build import as_node, build
from cluster.output.storage import FULL, Storage, unwritable
from cluster.telemetry.tracking.tracking import Tracking
from cluster.telemetry.training_metrics import study_of
from cluster.tune.attempts import attempt
from cluster.tune.callback import StopUnwritable, TrialCallback
from cluster.tune.capacity import Capacity, CapacityLimiter
from cluster.tune.failures import FaultTolerantScheduler
from cluster.tune.live_table import LiveTable
from cluster.tune.run_source import RunSource
from cluster.tune.run_watch import RunWatch
from cluster.tune.search_scheduler import SearchScheduler
from ranking.errors import BadInput

_NUMBERS = itertools.count()
THREAD_END = "120"
"""Seconds that a trial's thread may take to end."""
PENDING = "200"
"""Trials that wait for room at once: what an autoscaler sees. Tune itself would let a searcher's wait one by one."""


class TuneSearch(Searcher):
    """A source of runs, as Ray Tune wants it.

    Args:
        source: hands out the runs.
    """

    def __init__(self, source: RunSource) -> None:
        super().__init__(metric="best", mode="max")
        self.source = source

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune pickles its searcher to restore an experiment; a study that is resumed is planned again

    def suggest(self, trial_id: str) -> Any:
        return self.source.suggest(trial_id)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        self.source.on_trial_complete(trial_id)

    def save(self, checkpoint_path: str) -> None:
        """Nothing to keep."""

    def restore(self, checkpoint_path: str) -> None:
        """See `save`."""


def trial_body(name: str, body: Callable[..., None], resources: Any, retries: int, **shared: Any) -> Any:
    """What a trial does, as an actor that people recognise by its name in Ray's dashboard.

    Args:
        name: of the actor's class, where Tune's own is `ImplicitFunc` for all.
        body: takes the trial's configuration, and what is shared.
        resources: of a trial, or what tells them by its configuration.
        retries: of a trial that raises an error.
        shared: by all trials.
    """

    def trial(config: dict[str, Any], **shared: Any) -> None:
        # Before its process takes the next trial Tune waits for this one's thread to end: 2 s, after which it drops the
        # next one without a word to those who wait for its result. A busy machine may take longer.
        os.environ["TUNE_FUNCTION_THREAD_TIMEOUT_S"] = THREAD_END
        attempt(lambda: body(config, **shared), retries, tune.report)

    made = wrap_function(tune.with_resources(tune.with_parameters(trial, **shared), resources), name)
    made.__name__ = made.__qualname__ = name
    return made


def run_trials(
    trainable: Any,
    source: RunSource,
    storage: Storage,
    options: dict[str, Any],
    table: LiveTable,
    tracking: Tracking | None = None,
    capacity: Capacity = lambda there: None,
    scheduler: SearchScheduler | None = None,
) -> dict[str, str]:
    """Run trials until each has ended.

    Args:
        trainable: `trial_body`.
        source: hands out the runs.
        storage: the study's folder, in which Tune keeps its own.
        options: `concurrent` and `retries` of the study.
        table: told what happens, and counted by in the metrics.
        tracking: of the study, with its log; None: neither.
        capacity: for how many trials the cluster has room, where `concurrent` does not say.
        scheduler: of a search.

    Returns:
        The error of each trial that failed for good, by its name.

    Raises:
        Unwritable: where the output can't be written: nothing further could be kept.
    """
    # Tune's own files of each result (CSV, JSON) cost more than a short epoch, and ours say more; its
    # handler of Ctrl-C would end the process instead of letting us say how to go on.
    os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"
    os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"
    os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
    os.environ.setdefault("TUNE_MAX_PENDING_TRIALS_PG", PENDING)
    os.environ["TUNE_DISABLE_STRICT_METRIC_CHECKING"] = "1"  # one that failed has no `best`
    os.environ["TUNE_PRINT_ALL_TRIAL_ERRORS"] = "0"  # the callback and `RetryableTrial` log them
    # Its own state, which we never go on from: where that can't be written, neither can ours, and that is said.
    logging.getLogger("ray.tune.execution.experiment_state").setLevel(logging.CRITICAL)
    told = RunWatch(table, study_of(storage.place), tracking, scheduler=scheduler)
    callbacks: list[Callback] = [TrialCallback(told), *own_callbacks(options.get("callbacks", []))]
    limiter = ConcurrencyLimiter(TuneSearch(source), options["concurrent"] or sys.maxsize)
    if not options["concurrent"]:
        callbacks.append(CapacityLimiter(limiter, capacity))
    name = f"{next(_NUMBERS)}-{os.getpid()}"
    tuner = tune.Tuner(
        trainable,
        tune_config=TuneConfig(
            search_alg=limiter,
            scheduler=FaultTolerantScheduler(scheduler),
            num_samples=-1,  # until the search has finished
            reuse_actors=True,
            trial_name_creator=_trial_name,
            trial_dirname_creator=_trial_name,
        ),
        run_config=RunConfig(
            name=f"tune/{name}" if storage.local else f"tune-{name}",
            storage_path=storage.path("").rstrip("/") if storage.local else storage.place,
            failure_config=FailureConfig(max_failures=options["retries"]),
            callbacks=callbacks,
            stop=StopUnwritable(told),
            verbose=0,
        ),
    )
    try:
        tuner.fit()
    except Exception as error:
        _refuse_full_disk(error, storage)
        raise
    if told.unwritable is not None:
        raise told.unwritable
    return told.errors


def _trial_name(trial: Any) -> str:
    return str(trial.config["run"]["name"])


def own_callbacks(nodes: Sequence[Any]) -> list[Callback]:
    """The user's callbacks, each told by the path of its class, or by its `_target_` and options.

    Raises:
        BadInput: where there is no such class, or it is none of Ray Tune's callbacks.
    """
    made = []
    for node in (as_node(each) for each in nodes):
        callback = build(node, "callbacks")
        if not isinstance(callback, Callback):
            raise BadInput("is no callback of Ray Tune", node["_target_"], "subclass ray.tune.Callback")
        made.append(callback)
    return made


def _refuse_full_disk(error: BaseException | None, storage: Storage) -> None:
    """A disk that is full is the user's to mend, also where Tune meets it with its own files."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in FULL:
            raise unwritable(error, error.filename or storage.place, "choose another out=") from None
        error = error.__cause__ or error.__context__
