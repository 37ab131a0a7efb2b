"""Machines that are to be taken away, as Ray tells of them."""

import pickle

import pytest
import ray
from ray.exceptions import RayActorError, RayTaskError

from pyrite.cluster.executors import lost_process
from pyrite.cluster.executors.lost_process import (
    NOTICE,
    NodeDraining,
    draining,
    is_draining,
    leave,
    nodes_of_job,
    own_node,
)


def test_tune_and_train_take_it_for_a_preempted_actor():
    error = pickle.loads(pickle.dumps(NodeDraining()))
    assert isinstance(error, NodeDraining)
    assert error.preempted  # by which neither counts it as a failure
    assert NOTICE in str(error)
    told = RayTaskError("f", "traceback", error).as_instanceof_cause()
    assert [is_draining(each) for each in (error, told, RayActorError(), None)] == [True, True, False, False]
    assert lost_process.is_loss(told)
    assert not lost_process.killed_for_memory(told)


def test_the_state_is_kept_where_the_own_machine_goes_and_nowhere_else(monkeypatch):
    kept: list[int] = []
    monkeypatch.setattr(lost_process, "draining", lambda: {"a"})
    leave(lambda: kept.append(1), lambda: {"b", "c"})
    assert kept == []
    with pytest.raises(NodeDraining):
        leave(lambda: kept.append(2), lambda: {"a", "b"})
    assert kept == [2]
    monkeypatch.setattr(lost_process, "draining", set)
    leave(lambda: pytest.fail("kept"), lambda: pytest.fail("asked"))


@pytest.mark.nightly
def test_without_ray_or_its_answer_nothing_drains(ray_session, monkeypatch):
    from ray._private.state import state

    def refuse() -> None:
        raise RuntimeError("the head is gone")

    monkeypatch.setattr(state, "get_draining_nodes", refuse)
    assert draining() == set()
    monkeypatch.setattr(state, "get_draining_nodes", lambda: pytest.fail("asked"))
    monkeypatch.setattr(lost_process, "connected", lambda: False)
    assert draining() == set()


def test_workers_and_actors_leave_their_machines_and_a_driver_stays(ray_session):
    here = ray.get_runtime_context().get_node_id()
    assert own_node() == set()
    assert ray.get(ray.remote(num_cpus=0)(own_node).remote()) == {here}
    assert draining() == set()

    @ray.remote(num_cpus=0)
    class Actor:
        def ready(self) -> None: ...

    actor = Actor.remote()
    ray.get(actor.ready.remote())
    assert nodes_of_job("another") == {here}
    assert nodes_of_job(here) == set()
    ray.kill(actor)
