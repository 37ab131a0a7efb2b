"""Distinguishes lost processes and machines from errors of the work itself.

Work that is lost continues from its last state, so that the results are the same:

- a trial: Ray Tune starts it again (`tune_schedulers`), with more of a machine if it was killed for memory;
- one of several workers of a run: Ray Train starts all of them again (`training.coordinator`);
- the negative index: its actor starts again over the versions on disk, and readers wait (`index.client`);
- a worker of an agent: it starts again and repeats its decisions since the last state (`pyrite.rl.rllib.algorithm`);
- its learner: the learning returns to its last state (`rollouts.backends`);
- any other task: `RayExecutor` runs it again;
- the command itself, or the head of the cluster: `--resume` (`commands.resuming.read`).

If a machine is taken away on notice, runs and learnings save their state first.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

import ray
from ray import exceptions
from ray.exceptions import RayActorError

from pyrite.cluster.executors.session import connected
from pyrite.ranking.errors import BadInput

LOW_MEMORY = re.compile("node running low on memory|OutOfMemoryError")
"""Parts of Ray's messages about processes that were killed for memory."""
OOM = "oom_context"
"""How Ray's table of actors names such an end."""
KILLED = "killed by Ray's memory monitor"
"""The reason of such a loss in our messages."""
WRAPPING: Mapping[type[Exception], str] = {exceptions.RayTaskError: "cause", exceptions.RaySystemError: "client_exc"}
"""Errors of Ray around another, and the attribute that holds it."""
LOST = (
    exceptions.RayActorError,
    exceptions.WorkerCrashedError,
    exceptions.NodeDiedError,
    exceptions.LocalRayletDiedError,
    exceptions.ObjectLostError,
    exceptions.OutOfMemoryError,
    exceptions.ActorPlacementGroupRemoved,
    exceptions.TaskPlacementGroupRemoved,
)


def cause_of(error: BaseException) -> BaseException:
    """Return the error that a task raised, or that was raised while it was unpacked, without Ray's wrapping."""
    inner = next((getattr(error, name) for kind, name in WRAPPING.items() if isinstance(error, kind)), None)
    return cause_of(inner) if isinstance(inner, BaseException) else error


def bad_input(error: Exception) -> Exception:
    """Return the `BadInput` that caused an error; the error itself if another kind did."""
    cause = cause_of(error)
    return cause if isinstance(cause, BadInput) else error


def is_loss(error: BaseException) -> bool:
    """Return whether an error means that a process or a machine is gone."""
    return isinstance(cause_of(error), LOST)


def killed_for_memory(error: BaseException) -> bool:
    """Return whether Ray's memory monitor has ended a process. At the start of a process only the text reports it."""
    error = cause_of(error)
    killed = isinstance(error, exceptions.RayActorError) and LOW_MEMORY.search(str(error)) is not None
    return killed or isinstance(error, exceptions.OutOfMemoryError)


def loss_reason(error: BaseException) -> str:
    """Return why a process or a machine is gone, in one line."""
    return KILLED if killed_for_memory(error) else " ".join(str(error).split())[:200]


def answer_of(ref: ray.ObjectRef) -> tuple[Any, Exception | None]:
    """Return what a task returned, and what it raised or how it was lost."""
    try:
        value, error = ray.get(ref)
    except exceptions.RayError as raised:
        value, error = None, raised
    return value, error and bad_input(error)


NOTICE = "is to be taken away"
"""Part of the log's messages, by which `output.run_log` counts them."""
_log = logging.getLogger(__name__)


class NodeDraining(RayActorError):
    """The end of an attempt whose state is saved.

    Ray Tune and Ray Train treat it as a preempted actor, and start another without counting a failure.
    """

    def __init__(self, error_msg: str = f"its machine {NOTICE}; its state is kept, and it goes on elsewhere") -> None:
        super().__init__(error_msg=error_msg, preempted=True)
        self.args = (error_msg,)  # it is pickled by them


def is_draining(error: BaseException | None) -> bool:
    """Return whether an attempt ended because its machine will be taken away."""
    return error is not None and isinstance(cause_of(error), NodeDraining)


def draining() -> set[str]:
    """Return the ids of the nodes that will be taken away; none without Ray, or if it does not answer."""
    if not connected():
        return set()

    try:
        return set(ray._private.state.state.get_draining_nodes())
    except Exception as error:  # a head that is restarting; the caller asks again
        _log.debug("Ray does not say which machines drain (%s)", error)
        return set()


def own_node() -> set[str]:
    """Return the node of this process; none in the driver, which Ray does not restart."""
    context = ray.get_runtime_context()
    return {context.get_node_id()} if context.worker.mode == ray.WORKER_MODE else set()


def nodes_of_job(home: str) -> set[str]:
    """Return the nodes on which actors of this job run, but for the driver's, `home`, which must stay."""
    job = ray.JobID.from_hex(ray.get_runtime_context().get_job_id())
    actors = ray._private.state.state.actor_table(None, job, "ALIVE")
    return {actor["Address"]["NodeID"] for actor in actors.values()} - {home}


def killed_processes() -> set[tuple[str, int]]:
    """Return address and process of the actors of this job that Ray's memory monitor has ended."""
    job = ray.JobID.from_hex(ray.get_runtime_context().get_job_id())
    dead = ray._private.state.state.actor_table(None, job, "DEAD").values()
    return {
        (actor["Address"]["IPAddress"], actor["Pid"])
        for actor in dead
        if actor["DeathCause"] and actor["DeathCause"].WhichOneof("context") == OOM
    }


def leave(keep: Callable[[], object], nodes: Callable[[], Collection[str]] = own_node) -> None:
    """Save the state and raise `NodeDraining`, if a machine will be taken away. Called every few seconds.

    Args:
        nodes: returns the nodes that matter; called only if one drains.
    """
    going = draining()
    if going and not going.isdisjoint(nodes()):
        keep()
        raise NodeDraining
