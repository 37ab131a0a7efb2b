"""Tests of `pyrite.cluster.executors.local` and the warm processes next to it."""

import os
import signal
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from pyrite.cluster.commands.resuming import started
from pyrite.cluster.commands.study import STUDY, StudyWork
from pyrite.cluster.executors.local import LocalExecutor
from pyrite.cluster.executors.processes import Processes, ProcessLost, in_process
from pyrite.cluster.executors.task import Done, Once, Task, TaskLost, Wait, Watch
from pyrite.cluster.executors.worker import origin_of
from pyrite.cluster.runs.outcome import read_outcome
from pyrite.cluster.training.study_runs import task_of
from pyrite.ranking.errors import BadInput
from pyrite.ranking.training import RankerTraining
from tests.cluster.command_line import command
from tests.cluster.executors.bodies import BODIES, failing, numbers, square
from tests.cluster.waiting import until
from tests.made_up import write_files


class Seen(Watch):
    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def started(self, task: Task) -> None:
        self.events.append(("started", task.key))

    def progress(self, key: str, report: Mapping[str, Any]) -> None:
        self.events.append((f"at {report['epoch']}", key))

    def retrying(self, key: str, error: Exception) -> None:
        self.events.append(("retrying", key))

    def ended(self, done: Done) -> None:
        self.events.append(("failed" if done.error else "ended", done.task.key))


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    with Processes(1) as started:
        yield started


@contextmanager
def warm(count: int = 1, warm_up: str = "") -> Iterator[Processes]:
    """Processes that are ready, without the calling one."""
    with Processes(count, warm_up, caller=False) as started:
        until(lambda: started.ready() == count)
        yield started


def test_every_task_ends_once_and_one_thread_keeps_the_order_and_stops_when_it_is_told():
    done = list(LocalExecutor(3).run(numbers(7)))
    assert sorted((int(each.task.key), each.result()) for each in done) == [(n, n * n) for n in range(7)]
    ended: list[str] = []
    for done in LocalExecutor().run(numbers(9), stop=lambda: len(ended) == 4):
        ended.append(done.task.key)
    assert ended == ["0", "1", "2", "3"]


@pytest.mark.parametrize("threads", [1, 2])
def test_errors_are_tried_again_and_bad_input_is_not(threads, tmp_path):
    seen = Seen()
    asked = [("once", 1, "raise"), ("always", 9, "raise"), ("wrong", 9, "refuse"), ("lost", 1, "lose")]
    tasks = [failing(tmp_path, *each) for each in asked]
    done = {each.task.key: each for each in LocalExecutor(threads).run(tasks, watch=seen, retries=2)}
    assert done["once"].result() == "once after 1"
    assert done["lost"].result() == "lost after 1"
    with pytest.raises(ValueError, match="try 2"):
        done["always"].result()
    with pytest.raises(BadInput, match="it is wrong"):
        done["wrong"].result()
    tries = {path.name: int(path.read_text()) for path in tmp_path.iterdir()}
    assert tries == {"once": 2, "always": 3, "wrong": 1, "lost": 2}
    assert seen.events.count(("retrying", "always")) == 2
    assert [event for event in seen.events if event[1] == "wrong"] == [("started", "wrong"), ("failed", "wrong")]


class Doubling:
    """Hands out one task at a time, each with the result of the last."""

    def __init__(self) -> None:
        self.number, self.running = 2, False

    def next(self) -> Task | Wait | None:
        if self.running:
            return Wait.WAIT
        if self.number > 100:
            return None
        self.running = True
        return Task(str(self.number), square, {"number": self.number})

    def ended(self, done: Done) -> None:
        self.number, self.running = done.result(), False


@pytest.mark.parametrize("threads", [1, 2])
def test_tasks_may_depend_on_results(threads):
    assert [done.value for done in LocalExecutor(threads).run(Doubling())] == [4, 16, 256]


def test_a_task_runs_after_those_that_it_needs_and_what_is_built_once_serves_all(tmp_path):
    tasks = [
        Task("last", square, {"number": 3}, needs=frozenset({"first", "second"})),
        Task("first", square, {"number": 1}),
        Task("second", square, {"number": 2}, needs=frozenset({"first"})),
    ]
    assert [done.task.key for done in LocalExecutor().run(tasks)] == ["first", "second", "last"]
    shared = {"counter": Once(f"{BODIES}:Counter", {"folder": str(tmp_path), "step": 10}), "parts": {"a": 1, "b": 2}}
    tasks = [Task(str(n), f"{BODIES}:add", {"number": n}) for n in range(3)]
    assert [done.value[0] for done in LocalExecutor(shared=shared).run(tasks)] == [13, 14, 15]
    assert len(list(tmp_path.iterdir())) == 1


def test_other_processes_share_the_work(processes, tmp_path):
    until(processes.ready)
    shared = {"counter": Once(f"{BODIES}:Counter", {"folder": str(tmp_path)})}
    tasks = [Task(str(n), f"{BODIES}:add", {"number": n}) for n in range(40)]
    done = [each.result() for each in LocalExecutor(1, processes, shared).run(tasks)]
    assert sorted(number for number, _ in done) == list(range(1, 41))
    assert {process for _, process in done} == {int(path.name.split("-")[1]) for path in tmp_path.iterdir()}


def test_a_process_that_ends_is_replaced_until_it_is_the_tasks_fault(tmp_path, monkeypatch):
    monkeypatch.setattr("pyrite.cluster.executors.task.TASK_RESTARTS", 2)
    with warm() as alone:
        tasks = [failing(tmp_path, "twice", 1, "die"), failing(tmp_path, "always", 9, "die")]
        done = list(LocalExecutor(0, alone).run(tasks))
    assert done[0].result() == "twice after 1"
    with pytest.raises(TaskLost, match=r"always ended its process 2 times without progress \(exit code 7\)"):
        done[1].result()
    assert (tmp_path / "always").read_text() == "2"


@pytest.mark.parametrize("killed_first", [False, True])
def test_a_stop_ends_what_other_processes_do_and_does_not_start_it_again(tmp_path, killed_first):
    with warm(2) as others:
        seen = Seen()
        tasks = [
            Task("short", f"{BODIES}:square", {"number": 2}),
            Task("long", f"{BODIES}:waits", {"folder": str(tmp_path), "seconds": 20}),
        ]
        run = LocalExecutor(0, others).run(tasks, watch=seen)
        assert next(iter(run)).result() == 4
        until(lambda: list(tmp_path.iterdir()))
        started = list(tmp_path.iterdir())
        if killed_first:  # as Ctrl-C does, which all processes of a terminal receive
            os.kill(int(started[0].name.removeprefix("started-")), signal.SIGKILL)
        run.close()
    assert [path.name for path in tmp_path.iterdir()] == [started[0].name]
    assert ("retrying", "long") not in seen.events


def test_a_process_that_a_body_lost_while_the_command_was_stopped_is_not_started_again(tmp_path, monkeypatch):
    monkeypatch.setattr("pyrite.cluster.executors.local.AFTER_LOSS_S", 60)
    seen = Seen()
    tasks = [
        Task("short", f"{BODIES}:square", {"number": 2}),
        Task("lost", f"{BODIES}:loses", {"folder": str(tmp_path)}),
    ]
    run = LocalExecutor(2).run(tasks, watch=seen, retries=3)
    assert next(iter(run)).result() == 4
    until(lambda: list(tmp_path.iterdir()))
    (tmp_path / "lose").touch()
    run.close()
    assert len(list(tmp_path.glob("started-*"))) == 1
    assert ("retrying", "lost") not in seen.events


def test_a_process_that_a_body_loses_in_a_warm_one_is_no_loss_of_it(tmp_path):
    with warm() as alone:
        (done,) = LocalExecutor(0, alone).run([failing(tmp_path, "lost", 9, "lose")], retries=1)
    assert (tmp_path / "lost").read_text() == "2"
    with pytest.raises(ProcessLost, match="status -9"):
        done.result()


def test_reports_cross_from_another_process():
    seen = Seen()
    with warm() as alone:
        (done,) = LocalExecutor(0, alone).run([Task("r", f"{BODIES}:reports", {"number": 3})], watch=seen)
    assert done.result() == 3
    assert seen.events == [("started", "r"), ("at 1", "r"), ("at 2", "r"), ("at 3", "r"), ("ended", "r")]


def test_a_function_in_a_process_of_its_own(tmp_path):
    assert in_process(f"{BODIES}:square", {"number": 12}) == 144
    with pytest.raises(ValueError, match="try 0") as raised:
        in_process(f"{BODIES}:fails", {"folder": str(tmp_path), "name": "a", "times": 1})
    assert "bodies.py" in raised.value.__notes__[0]
    with pytest.raises(ProcessLost, match="exit code 7"):
        in_process(f"{BODIES}:fails", {"folder": str(tmp_path), "name": "b", "times": 1, "how": "die"})


def test_classes_of_a_notebook_and_relative_paths_work_in_another_process(tmp_path, monkeypatch):
    namespace = {"__name__": "__main__"}
    exec("class OfANotebook:\n    name = 'mine'\n", namespace)
    monkeypatch.setattr(sys.modules["__main__"], "OfANotebook", namespace["OfANotebook"], raising=False)
    write_files(tmp_path / "data", {"file": "there"})
    config = {"policy": {"_target_": "__main__.OfANotebook", "parts": [{"_target_": "pathlib.Path"}]}}
    with warm() as alone:
        monkeypatch.chdir(tmp_path)  # after the process has started
        task = Task("a", f"{BODIES}:notebook", {"config": config, "path": "data/file"})
        (done,) = LocalExecutor(0, alone).run([task])
    assert done.result() == ("mine", "there")
    # A name that is not defined is refused before anything runs.
    with pytest.raises(BadInput, match=r"__main__\.Nothing: is not defined in this program"):
        origin_of(Task("a", "", {"config": {"policy": {"_target_": "__main__.Nothing"}}}))


ROOT = Path(__file__).resolve().parents[3]
OPTIONS = ["ranker=static", "policy=fixed", "function=random", "selector=uniform", "training.max_epochs=1"]


def study(base: list[str], out: Path, *more: str) -> StudyWork:
    experiment = started(STUDY, [*base, *OPTIONS, f"out={out}", "local=true", *more])
    work = experiment.prepare(Console(quiet=True))
    experiment.local = True
    assert isinstance(work, StudyWork)
    return work


def test_runs_in_another_process_are_what_they_are_here(base, tmp_path):
    here, elsewhere = (study(base, tmp_path / name, "seeds=2") for name in ("here", "elsewhere"))
    shared = {"opened": Once("pyrite.cluster.runs.artifacts:OpenedParts")}
    with warm(warm_up="pyrite.cluster.training.study_runs:warm_up") as alone:
        executors = LocalExecutor(shared=shared), LocalExecutor(0, alone, shared)
        for experiment, executor in zip((here, elsewhere), executors, strict=True):
            storage = experiment.plan.storage
            tasks = [task_of(planned, experiment.artifacts, storage) for planned in experiment.waiting]
            assert [done.error for done in executor.run(tasks)] == [None, None]
    assert len(here.waiting) == 2
    for planned in here.waiting:
        one, other = (read_outcome(each.plan.storage, planned.name) for each in (here, elsewhere))
        assert one.means() == other.means()


def test_the_path_from_the_command_to_the_first_update_is_short(base, tmp_path):
    """So that a reader can follow it: a dozen calls of our own, in eight files at most."""
    paths: list[list[str]] = []
    update = RankerTraining.update

    def traced(self: RankerTraining, *arguments: Any) -> Any:
        calls = [Path(call.filename) for call in traceback.extract_stack()]
        ours = [
            call.relative_to(ROOT).as_posix().removeprefix("pyrite/") for call in calls if call.is_relative_to(ROOT)
        ]
        paths.append([path for path in ours if path.startswith(("cluster/", "ranking/", "sampling/"))])
        return update(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RankerTraining, "update", traced)
        options = [*base, *OPTIONS, f"out={tmp_path / 'out'}", "local=true", "seeds=1", "concurrent=1"]
        assert command("study", *options) == 0
    assert paths[0][0] == "cluster/commands/cli.py"
    assert len(paths[0]) <= 12
    assert len(set(paths[0])) <= 8


def test_no_more_runs_at_once_than_the_study_allows_and_no_processes_on_a_cluster(monkeypatch, base, tmp_path):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr("pyrite.cluster.executors.processes.WarmProcess", lambda warm_up: pytest.fail("started"))
    for overrides in (["seeds=2", "local=false"], ["address=there"]):
        assert len(Processes.for_command(overrides, "")) == 0
    monkeypatch.setenv("RAY_ADDRESS", "there")
    assert len(Processes.for_command([], "")) == 0
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    process = SimpleNamespace(ready=True, alive=True, close=lambda: None)
    monkeypatch.setattr("pyrite.cluster.executors.processes.WarmProcess", {"math:sqrt": process}.__getitem__)
    monkeypatch.setattr("pyrite.cluster.executors.processes.cores", lambda: 8)
    for override, others in (("concurrent=1", 0), ("concurrent=2", 1), ("concurrent=null", 3), ("concurrent=9", 3)):
        assert len(Processes.for_command([override], "math:sqrt")) == others
    monkeypatch.setattr("pyrite.cluster.commands.study_time.cores", lambda: 8)
    for concurrent, room in ((1, 1), (2, 2), (9, 4)):  # of a resumed study, which only its files tell
        experiment = study(base, tmp_path / str(concurrent), f"concurrent={concurrent}")
        experiment.experiment.workers = Processes(3, "math:sqrt")
        executor = experiment._executor()
        assert isinstance(executor, LocalExecutor)
        assert executor._room() == room
    experiment = study(base, tmp_path / "wide", "resources.cpu=3")  # runs that take three cores each
    experiment.experiment.workers = Processes(3, "math:sqrt")
    executor = experiment._executor()
    assert isinstance(executor, LocalExecutor)
    assert executor._room() == 2
