"""Runs a learning with its environments in workers, or on ranker hosts that workers call."""

from __future__ import annotations

import functools
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import polars as pl
import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.queue import Empty, Queue
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from pyrite.cluster.executors.lost_process import NOTICE, cause_of, draining, is_draining, is_loss, leave, nodes_of_job
from pyrite.cluster.executors.task import MAX_RESTARTS
from pyrite.cluster.output.result_store import ResultStore
from pyrite.cluster.output.throttle import Throttle
from pyrite.cluster.rollouts.checkpoints import STATE
from pyrite.cluster.rollouts.environments import Environments
from pyrite.cluster.rollouts.ranker_host import RankerHost, RemoteVectorEnvironment
from pyrite.cluster.rollouts.train_agent import LearningProgress, OnProgress, RolloutBackend, train_agent
from pyrite.cluster.runs.execute import Leave
from pyrite.ranking.errors import BadInput

RUNNER_CPUS = 0.1
"""Cores of a worker that only evaluates the network while its host trains."""
FEASIBLE_S = 60.0
"""Seconds to wait for room for the hosts on a cluster."""
REPLACED_S = 600.0
"""Seconds to wait if the hosts had room before: a lost node is replaced within minutes."""


def in_workers(config: dict[str, Any], shared: Mapping[str, Any] | None) -> RolloutBackend:
    """Return the backend whose workers hold the rankers. Each node holds the collection once, in Ray's object store."""
    return RolloutBackend(Environments(config, shared), workers_of(config), config["resources"]["cpu"])


def workers_of(config: dict[str, Any]) -> int:
    """Return the number of processes that step environments: the configured one, or what the cores share evenly."""
    if config["workers"] is not None or config["hosts"]:
        return int(config["hosts"] if config["workers"] is None else config["workers"])
    room = int(ray.cluster_resources().get("CPU", 1) // config["resources"]["cpu"])
    return max(count for count in range(1, max(room, 1) + 1) if config["copies"] % count == 0)


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
    on_loss: Callable[[str], None],
) -> pl.DataFrame:
    """Learn an agent on Ray, and return the episodes, which do not depend on losses.

    It resumes from the last state whenever a process is lost, unless losses keep it from making progress.

    Args:
        on_progress: called after each update; repeated updates are reported again.
        on_loss: called with a line about each lost process and each node that is left.
    """
    shared = {} if config["hosts"] else {name: ray.put(part) for name, part in parts.items()}
    farthest, failures, losses, latest = -1, 0, 0, 0

    def watch(progress: LearningProgress) -> None:
        nonlocal farthest, failures, latest
        latest = len(progress.rows)
        if latest > farthest:
            farthest, failures = latest, 0
        on_progress(replace(progress, losses=losses))

    while True:
        try:
            if config["hosts"]:
                return train_on_hosts(config, store, watch, facts, f"learn-{uuid.uuid4().hex[:6]}")
            on_notice = leaves_nodes_of_job(ray.get_runtime_context().get_node_id())
            # Each attempt counts the workers again: there may be fewer cores than before.
            return train_agent(config, in_workers(config, shared), parts, store, watch, facts, on_notice)
        except ray.exceptions.RayError as error:
            if is_draining(error):
                on_loss(f"a machine {NOTICE}: its state is kept at episode {latest}, and learning continues elsewhere")
                continue
            failures, losses = failures + 1, losses + 1
            if isinstance(cause := cause_of(error), BadInput):  # without the traceback that Ray adds
                raise cause from None
            if not is_loss(error) or failures > MAX_RESTARTS:
                raise
            named = re.search(r"class_name: (\S+)", str(error))
            process = named[1] if named else "a process of the learning"
            on_loss(f"{process} was lost at episode {latest}; continuing from the last state")


def leaves_nodes_of_job(home: str) -> Leave:
    """Return a `Leave` that ends a learning if a node that it uses will be taken away.

    Nodes that were draining when it began do not count: Ray has started nothing there.
    """
    before = draining()
    return functools.partial(leave, nodes=lambda: nodes_of_job(home) - before)


def train_on_hosts(
    config: dict[str, Any], store: ResultStore, on_progress: OnProgress, facts: Mapping[str, Any], name: str
) -> pl.DataFrame:
    """Train on ranker hosts in one placement group, from the last state to the end or until a process is lost."""
    workers = workers_of(config)
    timeout = FEASIBLE_S if store.storage.read(STATE) is None else REPLACED_S
    with ranker_hosts(config, workers, name, timeout) as (group, names):
        # On this node, which the learning needs anyway, and whose loss ends it.
        home = ray.get_runtime_context().get_node_id()
        affinity = NodeAffinitySchedulingStrategy(home, soft=False)
        queue = Queue(actor_options={"num_cpus": 0, "name": f"{name}-progress", "scheduling_strategy": affinity})
        strategy = PlacementGroupSchedulingStrategy(group, 0, placement_group_capture_child_tasks=True)
        task = ray.remote(num_cpus=RUNNER_CPUS, max_retries=0)(_learn)
        body = task.options(name=f"{name}-learner", scheduling_strategy=strategy)
        result = body.remote(config, names, workers, store, dict(facts), queue, home)
        try:
            while not ray.wait([result], timeout=0)[0]:
                _forward(queue, on_progress)
            episodes: pl.DataFrame = ray.get(result)
        finally:
            ray.cancel(result, force=True)
            queue.shutdown(force=True)
    return episodes


def _forward(queue: Queue, on_progress: OnProgress) -> None:
    """Report the newest progress in the queue, if any."""
    newest: LearningProgress | None = None
    try:
        newest = queue.get(timeout=0.5)
        while True:
            newest = queue.get(block=False)
    except Empty:
        if newest is not None:
            on_progress(newest)


def _learn(
    config: dict[str, Any],
    hosts: Sequence[str],
    workers: int,
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

    backend = RolloutBackend(functools.partial(on_hosts, hosts, config["copies"]), workers, RUNNER_CPUS)
    parts = Environments(config).parts()
    return train_agent(config, backend, parts, store, on_progress, facts, leaves_nodes_of_job(home))


@contextmanager
def ranker_hosts(config: dict[str, Any], workers: int, name: str, timeout: float) -> Iterator[tuple[Any, list[str]]]:
    """Start a placement group for the learner, its workers and their hosts, and the hosts in it: `NAME-host-0`, …

    RLlib puts worker k into bundle k. A host shares the bundle of its first worker. One host puts everything on one
    node; several are packed onto as few nodes as can hold them, unless `resources.placement` spreads them.
    """
    hosts, resources = config["hosts"], config["resources"]
    workers_per_host = workers // hosts
    bundles: list[dict[str, float]] = [{"CPU": RUNNER_CPUS}, *({"CPU": RUNNER_CPUS} for _ in range(workers))]
    for host in range(hosts):
        gpu = {"GPU": resources["gpu"]} if resources["gpu"] else {}
        bundle = {"CPU": RUNNER_CPUS + resources["cpu"], **gpu, **(resources["custom"] or {})}
        bundles[1 + host * workers_per_host] = bundle
    packed = "STRICT_PACK" if hosts == 1 else "PACK"
    group = placement_group(bundles, strategy="SPREAD" if resources["placement"] == "spread" else packed)
    actors: list[Any] = []
    try:
        if not group.wait(timeout):
            needed = f"{hosts} hosts with {resources['cpu']} cores and {resources['gpu']:g} GPUs each"
            remedy = "choose fewer, or smaller resources.cpu and resources.gpu"
            raise BadInput(f"the cluster has no room for {needed}", "hosts", remedy)
        names = [f"{name}-host-{host}" for host in range(hosts)]
        for host, host_name in enumerate(names):
            options = ray.remote(RankerHost).options(
                name=host_name,
                num_cpus=resources["cpu"],
                num_gpus=resources["gpu"],
                resources=resources["custom"] or {},
                max_restarts=0,
                max_task_retries=0,
                scheduling_strategy=PlacementGroupSchedulingStrategy(group, 1 + host * workers_per_host),
            )
            actors.append(options.remote(config))
        yield group, names
    finally:
        for actor in actors:
            ray.kill(actor)
        remove_placement_group(group)
