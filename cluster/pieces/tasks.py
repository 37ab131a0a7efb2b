"""Does a task for each piece of a collection: on Ray Data, or by turns in this process where that is quicker."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from cluster.plan.resources import cores
from cluster.session import session
from cluster.telemetry.metrics import connected
from ranking.collections.pieces import in_turn
from ranking.errors import BadInput

WORTH = 4
"""Pieces from which on a Ray is started for them: below that its start takes longer."""


def run_pieces_here(task: Callable[[int], None], count: int) -> None:
    """As `run_pieces`, on this machine alone, whose disk the task writes to."""
    run_pieces(task, count, here=True)


def run_pieces(task: Callable[[int], None], count: int, here: bool = False) -> None:
    """Do a task for each number below `count`.

    A cluster that this process drives is used, and RAY_ADDRESS; else a Ray is started for `WORTH` pieces or more. A
    process that a cluster runs does them itself: the cluster's cores may be taken by others who wait for it.

    Args:
        task: writes files that every machine sees or fetches; sent to other processes by pickle.
        count: of pieces.
        here: whether no other machine is to do any.

    Raises:
        BadInput: what a task found wrong with the user's files.
    """
    if count < 2 or (connected() and _is_worker()) or (not connected() and (count < WORTH or cores() < 2)):
        in_turn(task, count)
        return
    with session(dashboard=False):
        on_ray(task, count, here)


def on_ray(task: Callable[[int], None], count: int, here: bool = False) -> None:
    """Do a task for each number in tasks of Ray Data, as many at once as there are cores.

    Raises:
        BadInput: of a task; the others are done nevertheless.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    logging.getLogger("ray.data").setLevel(logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    numbers = ray.data.from_items([{"number": number} for number in range(count)], override_num_blocks=count)
    own = ray.get_runtime_context().get_node_id()
    place: Any = {"scheduling_strategy": NodeAffinitySchedulingStrategy(own, soft=False)} if here else {}
    done = numbers.map_batches(partial(_do, task), batch_size=1, num_cpus=1, **place).take_all()
    if sorted(each["number"] for each in done) != list(range(count)):
        raise RuntimeError(f"{count - len(done)} of {count} pieces are missing")
    for each in done:
        if each["refused"]:
            what, where, remedy = json.loads(each["refused"])
            raise BadInput(what, where, remedy)


def _do(task: Callable[[int], None], batch: dict[str, Any]) -> dict[str, Any]:
    """Do the task of a batch of one; bad input is told as a value, since Ray Data would tell it with tracebacks."""
    refused = ""
    try:
        task(int(batch["number"][0]))
    except BadInput as error:
        refused = json.dumps([error.what, str(error.where or ""), error.remedy])
    return {"number": batch["number"], "refused": [refused]}


def _is_worker() -> bool:
    import ray

    return bool(ray.get_runtime_context().worker.mode == ray.WORKER_MODE)
