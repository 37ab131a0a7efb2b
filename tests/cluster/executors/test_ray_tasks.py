"""Tests of `cluster.executors.ray_tasks` on a local Ray."""

import pytest
import ray

from cluster.executors.ray_tasks import RayExecutor
from cluster.executors.task import Once, Retry, Task, TaskLost
from ranking.errors import BadInput
from tests.cluster.executors.bodies import BODIES, failing, numbers


def test_tasks_on_ray(ray_session, tmp_path):
    # In the order of their needs, with values from the object store.
    tasks = [
        Task("b", f"{BODIES}:square", {"number": 3}, needs=frozenset({"a"})),
        Task("a", f"{BODIES}:square", {"number": 2}),
    ]
    assert [(done.task.key, done.result()) for done in RayExecutor().run(tasks)] == [("a", 4), ("b", 9)]

    # Errors, bad input and lost processes.
    asked = [("once", 1, "raise"), ("wrong", 9, "refuse"), ("twice", 1, "die"), ("always", 9, "die")]
    tasks = [failing(tmp_path, *each) for each in asked]
    done = {each.task.key: each for each in RayExecutor().run(tasks, retry=Retry(limit=2, errors=1))}
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
    executor = RayExecutor(shared, actors=1, name="Adder")
    tasks = [Task(str(n), f"{BODIES}:add", {"number": n}) for n in range(5)]
    assert [each.result()[0] for each in executor.run(tasks)] == [101, 102, 103, 104, 105]
    assert len(list(folder.iterdir())) == 1
    killer = [failing(tmp_path, "actor", 1, "die"), *numbers(2)]
    results = [each.result() for each in RayExecutor(actors=1).run(killer)]
    assert sorted(map(str, results)) == ["0", "1", "actor after 1"]
