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
    if count < 2 or not _has_ray(count):
        in_turn(function, count)
        return
    with session(dashboard=False):
        tasks = [Task(f"piece {number}", partial(function, number)) for number in range(count)]
        ended = {done.task.key: done for done in RayExecutor().run(tasks)}
    for task in tasks:
        ended[task.key].result()


def _has_ray(count: int) -> bool:
    """Return whether a Ray that this process has joined runs the pieces, or one is worth its start."""
    if connected():
        return ray.get_runtime_context().get_actor_id() is None
    return count >= LEAST_PIECES and cores() > 1
