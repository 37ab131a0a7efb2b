"""Hears from Ray that a machine is to be taken away, and ends what runs there, its state kept, to go on elsewhere.

Ray is told by an autoscaler at a spot notice, or by `ray drain-node`, and starts nothing new on such a machine. Who
ends there in order repeats nothing, where a loss goes back to the last state.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

import ray
from ray.exceptions import RayActorError

from cluster.executors.lost_process import cause_of
from cluster.executors.session import connected

NOTICE = "is to be taken away"
"""What the log says of a machine, by which `output.failure_summary` counts."""
_log = logging.getLogger(__name__)


class NodeDraining(RayActorError):
    """Ends an attempt whose state is kept.

    Ray Tune and Ray Train take it for an actor that was preempted, and start another without counting a failure.
    """

    def __init__(self, error_msg: str = f"its machine {NOTICE}; its state is kept, and it goes on elsewhere") -> None:
        super().__init__(error_msg=error_msg, preempted=True)
        self.args = (error_msg,)  # it is pickled by them


def is_draining(error: BaseException | None) -> bool:
    """Whether an attempt has ended in order, for its machine is to be taken away."""
    return error is not None and isinstance(cause_of(error), NodeDraining)


def draining() -> set[str]:
    """The machines that are to be taken away, by Ray's ids; none without Ray, or where it does not answer."""
    if not connected():
        return set()
    from ray._private.state import state

    try:
        return set(state.get_draining_nodes())
    except Exception as error:  # a head that is just coming back; whoever asks, asks again
        _log.debug("Ray does not say which machines drain (%s)", error)
        return set()


def own_node() -> set[str]:
    """The machine of this process, where it is one of Ray's workers: a driver has nobody who starts it elsewhere."""
    context = ray.get_runtime_context()
    return {context.get_node_id()} if context.worker.mode == ray.WORKER_MODE else set()


def nodes_of_job(home: str) -> set[str]:
    """The machines where actors of this job run.

    Args:
        home: the driver's, which is left out: it must stay.
    """
    from ray._private.state import state

    job = ray.JobID.from_hex(ray.get_runtime_context().get_job_id())
    actors = state.actor_table(None, job, "ALIVE")
    return {actor["Address"]["NodeID"] for actor in actors.values()} - {home}


def leave(keep: Callable[[], object], nodes: Callable[[], Collection[str]] = own_node) -> None:
    """Keep a state and end, where a machine is to be taken away; called every few seconds.

    Args:
        keep: keeps the state.
        nodes: the machines that matter, asked only where any drains.

    Raises:
        NodeDraining: where it does.
    """
    going = draining()
    if going and not going.isdisjoint(nodes()):
        keep()
        raise NodeDraining
