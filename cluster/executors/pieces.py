"""Runs a function once per piece of a large collection: on Ray, or one after another here if that is quicker."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pyrite.cluster.executors.ray_tasks import RayExecutor
from pyrite.cluster.executors.session import connected, session
from pyrite.cluster.executors.task import Task
from pyrite.cluster.lazy import ray
from pyrite.ranking.collections.pieces import in_turn
from pyrite.ranking.cores import cores

LEAST_PIECES = 4
"""Pieces from which a Ray is started for them. For fewer its start takes longer."""


def run_pieces(function: Callable[[int], None], count: int) -> None:
    """Call a function for each number below `count`.

    A cluster that this process is connected to is used, and RAY_ADDRESS. Otherwise a Ray is started for
    `LEAST_PIECES` or more. All pieces run before an error is raised, the first one in their order.

    A Ray task lends its core to the tasks that it waits for. An actor keeps its core, and the others may be taken by
    tasks that wait for it, so it runs all pieces itself.

    Args:
        function: writes files that every machine sees. It is pickled.
    """
    if count < 2 or (connected() and _is_actor()) or (not connected() and (count < LEAST_PIECES or cores() < 2)):
        in_turn(function, count)
        return
    with session(dashboard=False):
        tasks = [Task(f"piece {number}", partial(function, number)) for number in range(count)]
        errors = {done.task.key: done.error for done in RayExecutor().run(tasks) if done.error is not None}
    for task in tasks:
        if error := errors.get(task.key):
            raise error


def _is_actor() -> bool:

    return ray.get_runtime_context().get_actor_id() is not None
