"""Runs a learning on Ray, again from the last state if a process is lost."""

from __future__ import annotations

import functools
import re
import uuid
from collections.abc import Mapping
from typing import Any

import polars as pl
import ray
from ray.util.placement_group import remove_placement_group
from ray.util.queue import Queue
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from pyrite.cluster.executors.lost_process import NOTICE, bad_input, draining, is_draining, is_loss, leave, nodes_of_job
from pyrite.cluster.executors.task import Attempts
from pyrite.cluster.output.result_store import ResultStore
from pyrite.cluster.output.throttle import Throttle
from pyrite.cluster.rollouts.environments import Environments
from pyrite.cluster.rollouts.gang import Log, bundles_of, reserve
from pyrite.cluster.rollouts.train_agent import LearningProgress, OnProgress, train_agent
from pyrite.cluster.runs.execute import Leave

ENDED_S = 60.0
"""Seconds to wait for the result of a task that has ended."""


def learn(
    config: dict[str, Any],
    parts: Mapping[str, Any],
    store: ResultStore,
    facts: Mapping[str, Any],
    on_progress: OnProgress,
    log: Log,
) -> pl.DataFrame:
    """Learn an agent on Ray, and return the episodes, which do not depend on losses.

    A lost worker repeats what it has done since the last state. If another process is lost, all resume from that
    state, unless losses keep them from making progress.

    Args:
        on_progress: called after updates; repeated updates are reported again.
        log: called about each lost process, each node that is left, each wait for room and workers without it.
    """
    environments = Environments(config, {name: ray.put(part) for name, part in parts.items()})
    attempts, latest = Attempts(0), 0

    def watch(progress: LearningProgress) -> None:
        nonlocal latest
        latest = len(progress.rows)
        attempts.reached("learning", latest)
        on_progress(progress)

    while True:
        try:
            return _attempt(environments, store, facts, watch, log)
        except ray.exceptions.RayError as error:
            if is_draining(error):
                where = f"its state is kept at episode {latest}, and learning continues elsewhere"
                log("lost", f"a machine {NOTICE}: {where}")
                continue
            if not is_loss(error):
                raise bad_input(error) from None  # without the traceback that Ray adds
            if (given_up := attempts.after_loss("learning", str(error))) is not None:
                raise given_up from error
            named = re.search(r"class_name: (\S+)", str(error))
            process = named[1] if named else "a process of the learning"
            log("lost", f"{process} was lost at episode {latest}; continuing from the last state")


def leaves_nodes_of_job(home: str) -> Leave:
    """Return a `Leave` that ends a learning if a node that it uses will be taken away.

    Nodes that were draining when it began do not count: Ray has started nothing there.
    """
    before = draining()
    return functools.partial(leave, nodes=lambda: nodes_of_job(home) - before)


def _attempt(
    environments: Environments, store: ResultStore, facts: Mapping[str, Any], on_progress: OnProgress, log: Log
) -> pl.DataFrame:
    """Learn in one placement group, from the last state to the end or until a process is lost."""
    name = f"learn-{uuid.uuid4().hex[:6]}"
    group, workers = reserve(environments.config, log)
    # On this node, which the learning needs anyway, and whose loss ends it.
    home = ray.get_runtime_context().get_node_id()
    affinity = NodeAffinitySchedulingStrategy(home, soft=False)
    queue = Queue(actor_options={"num_cpus": 0, "name": f"{name}-progress", "scheduling_strategy": affinity})
    first, *_ = bundles_of(environments.config, workers)
    body = ray.remote(_learn).options(
        name=f"{name}-learner",
        num_cpus=first.pop("CPU", 0),
        num_gpus=first.pop("GPU", 0),
        memory=first.pop("memory", None),
        resources=first,
        max_retries=0,
        scheduling_strategy=PlacementGroupSchedulingStrategy(group, 0, placement_group_capture_child_tasks=True),
    )
    result = body.remote(environments, workers, store, dict(facts), queue, home)
    receivers: dict[str, Any] = {"progress": on_progress, "lost": functools.partial(log, "lost")}
    ended: list[Any] = []
    try:
        while not ended:
            ended, _ = ray.wait([result], timeout=0.5)
            for kind, item in queue.get_nowait_batch(queue.qsize()):
                receivers[kind](item)
        episodes: pl.DataFrame = ray.get(result, timeout=ENDED_S)
        return episodes
    finally:
        ray.cancel(result, force=True)
        queue.shutdown(force=True)
        remove_placement_group(group)


def _learn(
    environments: Environments, workers: int, store: ResultStore, facts: dict[str, Any], queue: Queue, home: str
) -> pl.DataFrame:
    """Train in the learner's process, next to its workers."""
    throttle = Throttle(1)  # a call per update would cost more than the update

    def on_progress(progress: LearningProgress) -> None:
        if throttle.due() or progress.episodes >= progress.wanted:
            queue.put(("progress", progress))

    return train_agent(
        environments, workers, store, on_progress, facts,
        leave=leaves_nodes_of_job(home), on_loss=lambda line: queue.put(("lost", line)),
    )  # fmt: skip
