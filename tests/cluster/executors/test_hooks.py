"""Hooks of the user's that raise: the runs end as they would, and one line says so."""

import pickle
import sys
from typing import Any

import pytest
from ray import cloudpickle
from ray.tune import Callback, Stopper
from ray.tune.schedulers import FIFOScheduler

from pyrite.cluster.executors.hooks import HookErrors, SafeCallback
from pyrite.cluster.executors.task import Context, Done, Task, Watch
from pyrite.cluster.executors.tune import TuneExecutor
from pyrite.cluster.search.schedulers import TrialStopping

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # so that no process imports what is imported here


class Slack(Callback):
    """Its server is down."""

    started: int = 0

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        type(self).started += 1

    def on_trial_result(self, *arguments: Any, **info: Any) -> None:
        raise ConnectionError("slack.example\nis down")

    def on_trial_complete(self, *arguments: Any, **info: Any) -> None:
        raise ConnectionError("it is still down")


def body(context: Context) -> dict[str, float]:
    context.report({"epoch": 1, "max_epochs": 1, "validation": 0.5, "best": 0.5})
    return {"best": 0.5}


class Ends(Watch):
    """Keeps how tasks ended, and those that were retried."""

    def __init__(self) -> None:
        self.dones, self.retried = list[Done](), list[str]()

    def ended(self, done: Done) -> None:
        self.dones.append(done)

    def retrying(self, key: str, error: Exception) -> None:
        self.retried.append(key)


def test_what_a_callback_raises_is_named_once(caplog):
    (safe,) = TuneExecutor(callbacks=[Slack()]).callbacks
    for _ in range(3):
        safe.on_trial_result(1, [], None, {})
        safe.on_trial_complete(1, [], None)
    assert_named_once(caplog)


@pytest.mark.nightly
def test_a_callback_that_raises_loses_no_run(ray_session, caplog):
    watch = Ends()
    executor = TuneExecutor(concurrent=1, callbacks=[Slack()])
    done = list(executor.run([Task(name, body) for name in "abc"], watch=watch))
    assert [each.error for each in done] == [None] * 3
    assert (len(watch.dones), watch.retried, Slack.started) == (3, [], 3)
    assert_named_once(caplog)


def assert_named_once(caplog: pytest.LogCaptureFixture) -> None:
    """Assert that each method of the callback that raises has a line."""
    lines = sorted(record.getMessage() for record in caplog.records if "Slack" in record.getMessage())
    complete, result = lines
    assert complete.startswith(f"{__name__}.Slack.on_trial_complete raises ConnectionError: it is still down; the runs")
    assert result.startswith(f"{__name__}.Slack.on_trial_result raises ConnectionError: is down; the runs continue")


def test_a_callback_is_called_as_before_and_tune_can_pickle_it():
    class Counts(Callback):
        def setup(self, stop: Any = None, **info: Any) -> None:
            self.stop = stop

    hook = Counts()
    safe = SafeCallback(hook, HookErrors())
    safe.setup(stop=3, num_samples=1)
    assert hook.stop == 3
    assert type(pickle.loads(pickle.dumps(safe))) is Callback


def test_stoppers_and_schedulers_that_raise_stop_nothing():
    class Broken(Stopper):
        def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
            raise ZeroDivisionError("division by zero")

        def stop_all(self) -> bool:
            raise ZeroDivisionError("division by zero")

    lines = list[str]()
    stopping = TrialStopping(lambda: FIFOScheduler(), [Broken()])
    stopping.errors = HookErrors(lines.append)
    stopping._runs["run"] = type("Run", (), {"curve": {}, "max_epochs": 5, "scheduler": FIFOScheduler()})()
    result = {"epoch": 1, "max_epochs": 5, "validation": 0.5}
    assert not stopping.ends("run", "1", result)
    assert not stopping.ends("run", "1", result)
    assert not stopping.finished()
    assert [line.partition(" raises ")[0].rpartition(".")[2] for line in lines] == ["__call__", "stop_all"]
