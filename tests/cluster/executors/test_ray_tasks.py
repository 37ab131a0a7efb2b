"""Tasks on a local Ray, and tasks of pieces, here and on Ray Data."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
import ray

from pyrite.cluster.executors.pieces import run_pieces
from pyrite.cluster.executors.ray_tasks import RayExecutor
from pyrite.cluster.executors.resources import Resources
from pyrite.cluster.executors.task import Once, Task, TaskLost
from pyrite.ranking.errors import BadInput
from tests.cluster.executors.bodies import BODIES, failing, numbers


def test_tasks_on_ray(ray_session, tmp_path, monkeypatch):
    monkeypatch.setattr("pyrite.cluster.executors.task.TASK_RESTARTS", 2)
    # In the order of their needs, with values from the object store.
    tasks = [Task("b", f"{BODIES}:square", {"number": 3}, needs=frozenset({"0"})), *numbers(1)]
    assert [(done.task.key, done.result()) for done in RayExecutor().run(tasks)] == [("0", 0), ("b", 9)]

    # Errors, bad input and lost processes.
    asked = [("once", 1, "raise"), ("wrong", 9, "refuse"), ("twice", 1, "die"), ("always", 9, "die")]
    tasks = [failing(tmp_path, *each) for each in asked]
    done = {each.task.key: each for each in RayExecutor().run(tasks, retries=1)}
    assert done["once"].result() == "once after 1"
    assert done["twice"].result() == "twice after 1"
    with pytest.raises(BadInput, match="it is wrong"):
        done["wrong"].result()
    with pytest.raises(TaskLost, match="always ended its process 2 times without progress"):
        done["always"].result()
    assert (tmp_path / "always").read_text() == "2"

    # In actors, which build a shared argument once each and are replaced when they are lost.
    folder = tmp_path / "built"
    folder.mkdir()
    shared = {"counter": Once(f"{BODIES}:Counter", {"folder": str(folder)}), "parts": {"x": ray.put(100)}}
    executor = RayExecutor(shared, lambda: 1, Resources(), "Adder")
    tasks = [Task(str(n), f"{BODIES}:add", {"number": n}) for n in range(5)]
    assert [each.result()[0] for each in executor.run(tasks)] == [101, 102, 103, 104, 105]
    assert len(list(folder.iterdir())) == 1
    killer = [failing(tmp_path, "actor", 1, "die"), *numbers(2)]
    results = [each.result() for each in RayExecutor({}, lambda: 1, Resources()).run(killer)]
    assert sorted(map(str, results)) == ["0", "1", "actor after 1"]


@dataclass
class Write:
    """Writes who did a task; refuses one."""

    folder: Path
    refused: int = -1

    def __call__(self, number: int) -> None:
        if number == self.refused:
            raise BadInput("is broken", f"piece {number}")
        (self.folder / str(number)).write_text(str(os.getpid()))


def test_a_few_pieces_are_done_in_this_process(tmp_path, monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)  # another test's may be there
    run_pieces(Write(tmp_path), 3)
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == dict.fromkeys("012", str(os.getpid()))


def test_ray_does_what_there_is_a_ray_for(ray_session, tmp_path):
    with pytest.raises(BadInput, match=r"^piece 1: is broken"):
        run_pieces(Write(tmp_path, refused=1), 3)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["0", "2"]  # the others are done nevertheless
    assert str(os.getpid()) not in {file.read_text() for file in tmp_path.iterdir()}


def test_a_task_hands_pieces_out_though_it_holds_every_core(ray_session, tmp_path):
    def reads(folder: Path) -> int:
        run_pieces(Write(folder), 3)
        return os.getpid()

    task = ray.remote(num_cpus=ray.cluster_resources()["CPU"])(reads)
    reader = ray.get(task.remote(tmp_path), timeout=120)
    assert reader not in {int(file.read_text()) for file in tmp_path.iterdir()}
    assert len(list(tmp_path.iterdir())) == 3
