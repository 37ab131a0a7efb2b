"""Runs a learning on Ray: its learner, its runners and its ranker hosts in one placement group."""

from __future__ import annotations

import functools
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any

import polars as pl
import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.queue import Empty, Queue
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from cluster.config.build import build
from cluster.executors.address import is_cluster
from cluster.executors.lost_process import NOTICE, cause_of, draining, is_draining, is_loss, leave, nodes_of_job
from cluster.executors.resources import WAITING, check_bundle, check_demand
from cluster.executors.task import MAX_RESTARTS
from cluster.output.result_store import ResultStore
from cluster.output.throttle import Throttle
from cluster.rollouts.environments import Environments
from cluster.rollouts.ranker_host import RankerHost, RemoteVectorEnvironment
from cluster.rollouts.train_agent import LearningProgress, OnProgress, RolloutBackend, train_agent
from cluster.runs.execute import Leave
from ranking.errors import BadInput

RUNNER_CPUS = 0.1
"""Cores of a worker that only evaluates the network while its host trains."""
FEASIBLE_S = 60.0
"""Seconds to wait for room on a cluster, before fewer workers or a line about the wait."""
REMINDER_S = 300.0
"""Seconds between two lines about a wait."""
Log = Callable[[str, str], None]
"""Called with the kind of an event and a line about it."""


def workers_of(config: Mapping[str, Any], nodes: Sequence[Mapping[str, float]]) -> int:
    """Return the number of processes that step environments: the configured one, or what the cores share evenly.

    Without hosts, it is at most the number that the nodes have room for next to the learners; 0 if there is none.
    """
    if config["hosts"]:
        return int(config["hosts"] if config["workers"] is None else config["workers"])
    cpus, copies, wanted = config["resources"]["cpu"], config["copies"], config["workers"]
    room = sum(int(node.get("CPU", 0) // cpus) for node in nodes) - build(config["agent"]).learners
    bound = room if wanted is None else min(wanted, room)
    return max((share for share in range(1, bound + 1) if copies % share == 0), default=0)


def check_room(config: Mapping[str, Any]) -> None:
    """Raise `BadInput` if a learning asks for more than a local Ray, which never grows, has in all."""
    if is_cluster(config["address"]):
        return
    present, learners = ray.cluster_resources(), build(config["agent"]).learners
    check_demand(config["resources"], present)
    if learners:
        needed = {"CPU": (learners + 1) * config["resources"]["cpu"]}
        check_bundle(needed, present, f"learning with agent.learners={learners}", "resources.", "choose fewer")


def nodes_alive() -> list[dict[str, float]]:
    """Return the resources of each node that is alive."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


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
            if not is_loss(error) or failures > MAX_RESTARTS:
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
            episodes: pl.DataFrame = ray.get(result, timeout=FEASIBLE_S)
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


def bundles_of(config: Mapping[str, Any], workers: int) -> list[dict[str, float]]:
    """Return what the processes of a learning take: the first one's, each worker's with its host, each learner's.

    RLlib puts worker k into bundle k. A host shares the bundle of its first worker. The first process computes while
    the workers wait, so it takes cores only if it steps the copies itself.
    """
    hosts, resources = config["hosts"], config["resources"]
    gpu = {"GPU": resources["gpu"]} if resources["gpu"] else {}
    bundles: list[dict[str, float]] = [{"CPU": RUNNER_CPUS if hosts else resources["cpu"]} for _ in range(workers)]
    for host in range(hosts):
        bundle = {"CPU": RUNNER_CPUS + resources["cpu"], **gpu, **(resources["custom"] or {})}
        bundles[host * (workers // hosts)] = bundle
    first = {"memory": WAITING} if workers else {"CPU": resources["cpu"]}
    return [first, *bundles, *([{"CPU": resources["cpu"], **gpu}] * build(config["agent"]).learners)]


@contextmanager
def gang(config: Mapping[str, Any], name: str, log: Log) -> Iterator[tuple[Any, int, list[str]]]:
    """Reserve a placement group for a learning, and start its hosts in it: `NAME-host-0`, …

    One host puts everything on one node; otherwise the group is packed onto as few nodes as can hold it, unless
    `resources.placement` spreads it.

    Yields:
        The group, the number of workers that it has room for, and the names of the hosts.
    """
    hosts, resources = config["hosts"], config["resources"]
    packed = "STRICT_PACK" if hosts == 1 else "PACK"
    group, workers = _reserved(config, "SPREAD" if resources["placement"] == "spread" else packed, log)
    actors: list[Any] = []
    try:
        names = [f"{name}-host-{host}" for host in range(hosts)]
        for host, host_name in enumerate(names):
            options = ray.remote(RankerHost).options(
                name=host_name,
                num_cpus=resources["cpu"],
                num_gpus=resources["gpu"],
                resources=resources["custom"] or {},
                max_restarts=0,
                max_task_retries=0,
                scheduling_strategy=PlacementGroupSchedulingStrategy(group, 1 + host * (workers // hosts)),
            )
            actors.append(options.remote(config))
        yield group, workers, names
    finally:
        for actor in actors:
            ray.kill(actor)
        remove_placement_group(group)


def _reserved(config: Mapping[str, Any], strategy: str, log: Log) -> tuple[Any, int]:
    """Return a placement group that is there, and its number of workers: fewer if the cluster has no room for all."""
    wanted, cpus = config["workers"], config["resources"]["cpu"]
    workers = wanted if wanted is not None and is_cluster(config["address"]) else _room(config)
    for turn in count():
        if wanted is not None and workers < wanted:
            log(
                "fewer workers",
                f"workers={wanted}: {workers} have room, with {cpus:g} cores each; the result is the same",
            )
        group = placement_group(bundles_of(config, workers), strategy=strategy)
        if group.wait(REMINDER_S if turn else FEASIBLE_S):
            return group, workers
        remove_placement_group(group)
        if config["hosts"]:
            needed = f"{config['hosts']} hosts with {cpus} cores and {config['resources']['gpu']:g} GPUs each"
            remedy = "choose fewer, or smaller resources.cpu and resources.gpu"
            raise BadInput(f"the cluster has no room for {needed}", "hosts", remedy)
        room = _room(config)
        if room >= workers:
            asked = f"{workers or 1} × {cpus:g} cores"
            largest = max((node.get("CPU", 0) for node in nodes_alive()), default=0)
            log(
                "waiting",
                f"learning waits for room on the cluster: {asked}; the largest node has {largest:g} CPU in all",
            )
        workers = min(workers, room)
    raise AssertionError


def _room(config: Mapping[str, Any]) -> int:
    """Return the number of workers to reserve now; at least one, unless this process steps the copies."""
    return 0 if config["workers"] == 0 else max(1, workers_of(config, nodes_alive()))
