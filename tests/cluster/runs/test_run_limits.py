"""Runs that reach `run_time` or `run_memory`, in the main thread, in another thread, and without reacting."""

import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

import pytest

from pyrite.cluster.config.durations import seconds_of
from pyrite.cluster.output.result_store import SavedState
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.runs import run_limits as run_limits_module
from pyrite.cluster.runs.run_limits import LimitReached, run_limits
from pyrite.ranking.errors import BadInput
from tests.cluster.command_line import command

SLOW = """
import time
from pyrite.sampling.retrieval.random import RandomFunction


class Slow(RandomFunction):
    def sample(self, batch, count, rng):
        time.sleep(1000)
        return super().sample(batch, count, rng)
"""


@pytest.mark.parametrize("main", [True, False])
def test_each_block_is_ended_and_nothing_is_interrupted_after_it(main, monkeypatch):
    monkeypatch.setattr(run_limits_module, "REPEAT_S", 0.0002)
    handler, ended = signal.getsignal(signal.SIGALRM), list[BaseException]()

    def body() -> None:
        for _ in range(30):
            try:
                with run_limits("0.002s", None, lambda _: None), suppress(Exception):  # which must not catch it
                    while True:
                        time.sleep(1000 if main else 0.0005)
            except LimitReached as error:
                ended.append(error)
        sum(range(200_000))

    if main:
        body()
    else:
        thread = threading.Thread(target=body)
        thread.start()
        thread.join(60)
    assert all("took longer than 0.002s and was ended" in str(error) for error in ended)
    assert len(ended) == 30
    assert signal.getsignal(signal.SIGALRM) is handler


def test_somebody_elses_alarm_is_passed_on():
    heard = list[int]()
    before = signal.signal(signal.SIGALRM, lambda number, _: heard.append(number))
    try:
        with run_limits("90s", None, pytest.fail):
            signal.raise_signal(signal.SIGALRM)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert heard == [signal.SIGALRM]


def test_a_worker_that_does_not_react_is_ended_and_the_next_attempt_knows(tmp_path):
    program = f"""
import threading, time
from pyrite.cluster.output.result_store import SavedState
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.runs import run_limits
run_limits.GRACE_S, run_limits._is_worker = 0.1, lambda: True
def body():
    with run_limits.run_limits("0.1s", None, SavedState(Storage({str(tmp_path)!r}), "a", {{}}).mark_hung):
        time.sleep(1000)
threading.Thread(target=body).start()
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=120, check=False).returncode == 1
    state = SavedState(Storage(str(tmp_path)), "a", {})
    assert (state.hung(), state.hung()) == ("run_time", None)


def test_a_run_beyond_its_limits_is_reported(base, tmp_path, monkeypatch, capsys):
    (tmp_path / "slowly.py").write_text(SLOW)
    monkeypatch.syspath_prepend(str(tmp_path))
    slow = ["function=[]", "+function.slow._target_=slowly.Slow"]
    for limit, says in (("run_time=1s", "longer than 1s"), ("run_memory=.01", "more than 0.01 GB of memory")):
        assert command("train", *base, *slow, limit, f"out={tmp_path / limit}") == 2
        assert f"took {says} and was ended" in capsys.readouterr().err
        assert not list((tmp_path / limit).glob("runs/*"))


def test_durations_are_read_and_a_block_within_its_limit_is_left_alone():
    known = {"2h": 7200, "1h30m": 5400, "90s": 90, "0.5m": 30, "1d": 86400, 7: 7, 0.5: 0.5}
    assert {text: seconds_of(text, "run_time") for text in known} == known
    for bad in ("2 h", "2 hours", "", "0s", 0, -1, "-1h", "h", "10", float("nan")):
        with pytest.raises(BadInput, match="run_time is"):
            seconds_of(bad, "run_time")
    with run_limits(None, None, pytest.fail), run_limits("9s", 1000, pytest.fail):
        time.sleep(0.01)
