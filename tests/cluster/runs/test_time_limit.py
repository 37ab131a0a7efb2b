"""Runs that take longer than `run_time`, in the main thread, in another thread, and without reacting."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import polars as pl
import pytest

from cluster.config.durations import seconds_of
from cluster.output.result_store import SavedState
from cluster.output.storage import Storage
from cluster.runs.time_limit import RunTimeout, time_limit
from ranking.errors import BadInput
from tests.cluster.command_line import command

SLOW = """
import time
from sampling.retrieval.random import RandomFunction


class Slow(RandomFunction):
    def sample(self, batch, count, rng):
        time.sleep(1000)
        return super().sample(batch, count, rng)
"""


def test_a_block_within_its_limit_is_left_alone() -> None:
    with time_limit(None, 1, pytest.fail), time_limit("9s", 9, pytest.fail):
        time.sleep(0.01)


def test_a_block_that_waits_is_ended_in_the_main_thread() -> None:
    def wait() -> None:
        with time_limit("0.05s", 0.05, pytest.fail):
            try:
                time.sleep(1000)
            except Exception:
                pytest.fail("a handler of all exceptions must not catch it")

    with pytest.raises(RunTimeout, match=r"took longer than 0.05s and was ended"):
        wait()


def test_a_block_that_computes_is_ended_in_another_thread() -> None:
    errors = list[BaseException]()

    def body() -> None:
        try:
            with time_limit("0.05s", 0.05, lambda: None):
                while True:
                    time.sleep(0.001)
        except RunTimeout as error:
            errors.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert len(errors) == 1


def test_a_worker_that_does_not_react_is_ended_and_the_next_attempt_knows(tmp_path: Path) -> None:
    program = f"""
import threading, time
from cluster.output.result_store import SavedState
from cluster.output.storage import Storage
from cluster.runs import time_limit
time_limit.GRACE_S, time_limit._is_worker = 0.1, lambda: True
def body():
    with time_limit.time_limit("1s", 0.1, SavedState(Storage({str(tmp_path)!r}), "a", {{}}).mark_hung):
        time.sleep(1000)
threading.Thread(target=body).start()
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=120, check=False).returncode == 1
    state = SavedState(Storage(str(tmp_path)), "a", {})
    assert (state.hung(), state.hung()) == (True, False)


def test_a_run_that_hangs_is_reported(base: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slowly.py").write_text(SLOW)
    monkeypatch.syspath_prepend(str(tmp_path))
    slow = ["function=[]", "+function.slow._target_=slowly.Slow"]
    assert command("train", *base, *slow, "run_time=2s", f"out={tmp_path / 'run'}") == 2
    assert not list((tmp_path / "run").glob("runs/*"))


def test_a_study_reports_a_run_that_hangs(base: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slowly.py").write_text(SLOW)
    monkeypatch.syspath_prepend(str(tmp_path))
    slow = ["function=[]", "+function.slow._target_=slowly.Slow", "policy=fixed", "selector=uniform", "track=[]"]
    out = tmp_path / "study"
    assert command("study", *base, *slow, "seeds=1", "run_time=2s", "local=true", f"out={out}") == 1
    trials = pl.read_parquet(out / "trials.parquet")
    assert trials["status"].to_list() == ["failed"]
    assert "took longer than 2s and was ended" in trials["error"][0]


def test_durations_are_read() -> None:
    assert [seconds_of(text, "run_time") for text in ("2h", "1h30m", "90s", "0.5m", 7)] == [7200, 5400, 90, 30, 7]
    for bad in ("2 h", "", "0s", -1, "h"):
        with pytest.raises(BadInput, match="run_time is"):
            seconds_of(bad, "run_time")
