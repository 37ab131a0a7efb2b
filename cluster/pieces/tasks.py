"""Does a task for each piece of a collection: on Ray Data, or by turns in this process where that is quicker."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from cluster.executors.resources import cores
from cluster.executors.session import connected, session
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
    task hands them out as tasks, and its own core with them while it waits; an actor, which keeps its core, does them
    itself: the others may be taken by those who wait for it.

    Args:
        task: writes files that every machine sees or fetches; sent to other processes by pickle.
        count: of pieces.
        here: whether no other machine is to do any.

    Raises:
        BadInput: what a task found wrong with the user's files.
    """
    if count < 2 or (connected() and _is_actor()) or (not connected() and (count < WORTH or cores() < 2)):
        in_turn(task, count)
        return
    if connected() and _is_worker():
        in_tasks(task, count, here)
        return
    with session(dashboard=False):
        on_ray(task, count, here)


def on_ray(task: Callable[[int], None], count: int, here: bool = False) -> None:
    """Do a task for each number in tasks of Ray Data, as many at once as there are cores.

    Raises:
        BadInput: of a task; the others are done nevertheless.
    """
    import ray

    logging.getLogger("ray.data").setLevel(logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    numbers = ray.data.from_items([{"number": number} for number in range(count)], override_num_blocks=count)
    done = numbers.map_batches(partial(_do, task), batch_size=1, **_core(here)).take_all()
    if sorted(each["number"] for each in done) != list(range(count)):
        raise RuntimeError(f"{count - len(done)} of {count} pieces are missing")
    _raise(each["refused"] for each in done)


def in_tasks(task: Callable[[int], None], count: int, here: bool = False) -> None:
    """Do a task for each number in plain tasks: Ray Data's own threads would wait without giving the caller's core.

    Raises:
        BadInput: of a task; the others are done nevertheless.
    """
    import ray

    each: Any = ray.remote(**_core(here))(_refusal)
    _raise(ray.get([each.remote(task, number) for number in range(count)]))


def _core(here: bool) -> dict[str, Any]:
    """What a task takes: a core, of this machine or of any."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    own = ray.get_runtime_context().get_node_id()
    return {"num_cpus": 1} | ({"scheduling_strategy": NodeAffinitySchedulingStrategy(own, soft=False)} if here else {})


def _do(task: Callable[[int], None], batch: dict[str, Any]) -> dict[str, Any]:
    """Do the task of a batch of one."""
    return {"number": batch["number"], "refused": [_refusal(task, int(batch["number"][0]))]}


def _refusal(task: Callable[[int], None], number: int) -> str:
    """Do a task; bad input is told as a value, "" for none, since Ray would tell it with tracebacks."""
    try:
        task(number)
    except BadInput as error:
        return json.dumps([error.what, str(error.where or ""), error.remedy])
    return ""


def _raise(refused: Iterable[str]) -> None:
    """Raise the first refusal, if there is one."""
    for each in filter(None, refused):
        what, where, remedy = json.loads(each)
        raise BadInput(what, where, remedy)


def _is_actor() -> bool:
    import ray

    return ray.get_runtime_context().get_actor_id() is not None


def _is_worker() -> bool:
    import ray

    return bool(ray.get_runtime_context().worker.mode == ray.WORKER_MODE)
