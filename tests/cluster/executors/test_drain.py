"""Machines that are to be taken away, as Ray tells of them."""

from __future__ import annotations

import pickle

import pytest
import ray
from ray.exceptions import RayActorError, RayTaskError

from cluster.executors import lost_process
from cluster.executors.lost_process import (
    NOTICE,
    NodeDraining,
    draining,
    is_draining,
    is_loss,
    killed_for_memory,
    leave,
    nodes_of_job,
    own_node,
)


def test_tune_and_train_take_it_for_a_preempted_actor() -> None:
    error = pickle.loads(pickle.dumps(NodeDraining()))
    assert isinstance(error, NodeDraining)
    assert error.preempted  # by which neither counts it as a failure
    assert NOTICE in str(error)
    told = RayTaskError("f", "traceback", error).as_instanceof_cause()
    assert is_draining(error)
    assert is_draining(told)
    assert is_loss(told)
    assert not killed_for_memory(told)
    assert not is_draining(RayActorError())
    assert not is_draining(None)


def test_the_state_is_kept_where_the_own_machine_goes_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []
    monkeypatch.setattr(lost_process, "draining", lambda: {"a"})
    leave(lambda: kept.append(1), lambda: {"b", "c"})
    assert kept == []
    with pytest.raises(NodeDraining):
        leave(lambda: kept.append(2), lambda: {"a", "b"})
    assert kept == [2]
    monkeypatch.setattr(lost_process, "draining", set)
    leave(lambda: pytest.fail("kept"), lambda: pytest.fail("asked"))


def test_without_ray_nothing_drains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_process, "connected", lambda: False)
    assert draining() == set()


def test_a_ray_that_does_not_answer_says_nothing(ray_session: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from ray._private.state import state

    def refuse() -> None:
        raise RuntimeError("the head is gone")

    monkeypatch.setattr(state, "get_draining_nodes", refuse)
    assert draining() == set()


def test_a_worker_leaves_its_machine_and_a_driver_stays(ray_session: None) -> None:
    here = ray.get_runtime_context().get_node_id()
    assert own_node() == set()
    assert ray.get(ray.remote(num_cpus=0)(own_node).remote()) == {here}
    assert draining() == set()


def test_the_machines_of_a_job_are_those_of_its_actors_but_for_the_drivers(ray_session: None) -> None:
    @ray.remote(num_cpus=0)
    class Actor:
        def ready(self) -> None: ...

    actor = Actor.remote()
    ray.get(actor.ready.remote())
    here = ray.get_runtime_context().get_node_id()
    assert nodes_of_job("another") == {here}
    assert nodes_of_job(here) == set()
    ray.kill(actor)
