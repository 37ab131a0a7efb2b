"""Runs a learning on Ray, again from the last state if a process is lost."""

from __future__ import annotations

import functools
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl
import ray
from ray.util.queue import Empty, Queue
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from pyrite.cluster.executors.lost_process import NOTICE, cause_of, draining, is_draining, is_loss, leave, nodes_of_job
from pyrite.cluster.limits import TASK_RESTARTS
from pyrite.cluster.output.result_store import ResultStore
from pyrite.cluster.output.throttle import Throttle
from pyrite.cluster.rollouts.environments import Environments
from pyrite.cluster.rollouts.gang import RUNNER_CPUS, Log, bundles_of, gang
from pyrite.cluster.rollouts.ranker_host import RemoteVectorEnvironment
from pyrite.cluster.rollouts.train_agent import LearningProgress, OnProgress, RolloutBackend, train_agent
from pyrite.cluster.runs.execute import Leave
from pyrite.ranking.errors import BadInput

ENDED_S = 60.0
"""Seconds to wait for the result of a task that has ended."""


def on_hosts(hosts: Sequence[str], total: int, first: int, count: int) -> RemoteVectorEnvironment:
    """Return environments `first` to `first + count − 1`, which are stepped on one of the `hosts`, by their names.

    Neighbouring environments share one. After the `total` of an agent, the next ones are on the same hosts again.
    """
    return RemoteVectorEnvironment(hosts[first % total * len(hosts) // total], first, count)


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
    shared = None if config["hosts"] else {name: ray.put(part) for name, part in parts.items()}
    farthest, failures, losses, latest = -1, 0, 0, 0

    def watch(progress: LearningProgress) -> None:
        nonlocal farthest, failures, latest
        latest = len(progress.rows)
        if latest > farthest:
            farthest, failures = latest, 0
        on_progress(replace(progress, losses=losses))

    while True:
        try:
            return _attempt(config, shared, store, facts, watch, log)
        except ray.exceptions.RayError as error:
            if is_draining(error):
                log(
                    "lost",
                    f"a machine {NOTICE}: its state is kept at episode {latest}, and learning continues elsewhere",
                )
                continue
            failures, losses = failures + 1, losses + 1
            if isinstance(cause := cause_of(error), BadInput):  # without the traceback that Ray adds
                raise cause from None
            if not is_loss(error) or failures > TASK_RESTARTS:
                raise
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
    config: dict[str, Any],
    shared: Mapping[str, Any] | None,
    store: ResultStore,
    facts: Mapping[str, Any],
    on_progress: OnProgress,
    log: Log,
) -> pl.DataFrame:
    """Learn in one placement group, from the last state to the end or until a process is lost."""
    name = f"learn-{uuid.uuid4().hex[:6]}"
    with gang(config, name, log) as (group, workers, hosts):
        # On this node, which the learning needs anyway, and whose loss ends it.
        home = ray.get_runtime_context().get_node_id()
        affinity = NodeAffinitySchedulingStrategy(home, soft=False)
        queue = Queue(actor_options={"num_cpus": 0, "name": f"{name}-progress", "scheduling_strategy": affinity})
        strategy = PlacementGroupSchedulingStrategy(group, 0, placement_group_capture_child_tasks=True)
        (learner, *_) = bundles_of(config, workers)
        body = ray.remote(_learn).options(
            name=f"{name}-learner",
            num_cpus=learner.get("CPU", 0),
            memory=learner.get("memory"),
            max_retries=0,
            scheduling_strategy=strategy,
        )
        result = body.remote(config, shared, workers, hosts, store, dict(facts), queue, home)
        try:
            while not ray.wait([result], timeout=0)[0]:
                _forward(queue, on_progress, log)
            episodes: pl.DataFrame = ray.get(result, timeout=ENDED_S)
        finally:
            ray.cancel(result, force=True)
            queue.shutdown(force=True)
    return episodes


def _forward(queue: Queue, on_progress: OnProgress, log: Log) -> None:
    """Report the lines and the newest progress in the queue, if any."""
    newest: LearningProgress | None = None
    try:
        item = queue.get(timeout=0.5)
        while True:
            if isinstance(item, str):
                log("lost", item)
            else:
                newest = item
            item = queue.get(block=False)
    except Empty:
        if newest is not None:
            on_progress(newest)


def _learn(
    config: dict[str, Any],
    shared: Mapping[str, Any] | None,
    workers: int,
    hosts: Sequence[str],
    store: ResultStore,
    facts: dict[str, Any],
    queue: Queue,
    home: str,
) -> pl.DataFrame:
    """Train in the learner's process, next to its workers and hosts."""
    throttle = Throttle(1)  # a call per update would cost more than the update

    def on_progress(progress: LearningProgress) -> None:
        if throttle.due() or progress.episodes >= progress.wanted:
            queue.put(progress)

    environments = Environments(config, shared)
    backend = RolloutBackend(environments, workers, config["resources"]["cpu"])
    if hosts:
        backend = RolloutBackend(functools.partial(on_hosts, hosts, config["copies"]), workers, RUNNER_CPUS)
    return train_agent(
        config, backend, environments.parts(), store, on_progress, facts, leaves_nodes_of_job(home), queue.put
    )
