"""A process beside a study's own, held against what it must do: the same results, errors as they were, no orphans."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cluster.commands.study import StudyExperiment
from cluster.output.storage import Storage
from cluster.runs.outcome import read_outcome
from cluster.tune.local_study import run_here
from cluster.tune.local_worker import serve
from cluster.tune.local_workers import LocalWorkers
from cluster.tune.study_run import described
from cluster.tune.study_work import StudyWork
from cluster.tune.time_budget import TimeBudget
from ranking.errors import BadInput

OPTIONS = ["ranker=static", "policy=fixed", "function=random", "selector=uniform", "training.max_epochs=1"]


class ElsewhereOnly(LocalWorkers):
    """Has this process do nothing."""

    def __init__(self) -> None:
        super().__init__(1)
        while self.at_once() == 1:
            time.sleep(0.05)
        assert self._idle.get() is None
        self.process = self._started[0]

    def at_once(self) -> int:
        return super().at_once() - hasattr(self, "process")


@pytest.fixture(scope="module")
def workers() -> Iterator[ElsewhereOnly]:
    with_one = ElsewhereOnly()
    yield with_one
    with_one.close()


def study(base: list[str], out: Path, *more: str) -> StudyExperiment:
    experiment = StudyExperiment.new([*base, *OPTIONS, f"out={out}", *more])
    experiment.prepare(Console(quiet=True))
    return experiment


def work(experiment: StudyExperiment, workers: LocalWorkers | None) -> StudyWork:
    left = (experiment.waiting, experiment.proposals, experiment.ready, experiment.artifacts, TimeBudget(None))
    return StudyWork(experiment.plan, *left, Console(quiet=True), workers=workers)


def test_runs_elsewhere_are_what_they_are_here(workers: ElsewhereOnly, base: list[str], tmp_path: Path) -> None:
    here, elsewhere = study(base, tmp_path / "here", "seeds=2"), study(base, tmp_path / "elsewhere", "seeds=2")
    assert run_here(work(here, None)) == run_here(work(elsewhere, workers)) == {}
    assert len(here.waiting) == 2
    for planned in here.waiting:
        one, other = (read_outcome(each.plan.storage, planned.name) for each in (here, elsewhere))
        assert one is not None
        assert other is not None
        assert one.means() == other.means()


def test_errors_come_back_as_what_they_are(workers: ElsewhereOnly, base: list[str], tmp_path: Path) -> None:
    experiment = study(base, tmp_path / "study")
    run = described(experiment.waiting[0], experiment.artifacts)
    bad = run | {"config": run["config"].replace('"random"', '"nobody"')}
    with pytest.raises(Exception, match="nobody") as raised:
        workers.execute(lambda *_: None, Storage(str(tmp_path / "study")), bad, lambda _: None)
    assert "local_worker" in "".join(raised.value.__notes__)
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(BadInput, match="file"):
        workers.execute(lambda *_: None, Storage(str(file)), run, lambda _: None)


def test_a_process_that_is_lost_is_one_fewer(workers: ElsewhereOnly, base: list[str], tmp_path: Path) -> None:
    experiment = study(base, tmp_path / "study")
    run = described(experiment.waiting[0], experiment.artifacts)
    told: list[dict[str, Any]] = []

    def report(result: dict[str, Any]) -> None:
        told.append(result)
        os.kill(workers.process._process.pid, signal.SIGKILL)

    with pytest.raises(ChildProcessError, match=r"exit code -9"):
        workers.execute(lambda *_: None, Storage(str(tmp_path / "study")), run, report)
    assert told
    assert workers.at_once() == 0


def test_a_process_that_nobody_needs_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    ours, theirs = socket.socketpair()
    serving = threading.Thread(target=serve, args=[Connection(theirs.detach())])
    serving.start()
    with Connection(ours.detach()) as connection:
        assert connection.poll(60)
    serving.join()  # what it has said was not read: the socket was reset
    assert capfd.readouterr().err == ""


def test_a_study_on_a_cluster_starts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr("cluster.tune.local_workers.WorkerProcess", lambda: pytest.fail("started"))
    assert LocalWorkers.foreseen(["seeds=2", "local=false"]).at_once() == 1
    assert LocalWorkers.foreseen(["address=there"]).at_once() == 1
    monkeypatch.setenv("RAY_ADDRESS", "there")
    assert LocalWorkers.foreseen([]).at_once() == 1


def test_no_more_run_at_once_than_the_study_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    started: list[None] = []
    monkeypatch.setattr("cluster.tune.local_workers.WorkerProcess", lambda: started.append(None))
    monkeypatch.setattr("cluster.tune.local_workers.cores", lambda: 8)
    for overrides, others in (
        (["concurrent=1"], 0),
        (["concurrent=2"], 1),
        (["concurrent=null"], 3),
        ([], 3),
        (["concurrent=9"], 3),
    ):
        started.clear()
        LocalWorkers.foreseen(overrides)
        assert len(started) == others


def test_a_resumed_study_keeps_to_what_it_asked_for(
    monkeypatch: pytest.MonkeyPatch, base: list[str], tmp_path: Path
) -> None:
    class Ready:
        ready = alive = True

        def close(self) -> None:
            self.alive = False

    monkeypatch.setattr("cluster.tune.local_workers.WorkerProcess", Ready)
    asked: list[int] = []
    monkeypatch.setattr("cluster.tune.local_study.run_locally", lambda *_, at_once: asked.append(at_once()) or {})
    for most in (1, 2, 9):
        experiment = study([*base, f"concurrent={most}"], tmp_path / str(most))
        run_here(work(experiment, LocalWorkers(3)))
    assert asked == [1, 2, 4]
