"""Reserves the placement group of a learning: the learner, its workers and their hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from pyrite.cluster.config.build import build
from pyrite.cluster.executors.address import is_cluster
from pyrite.cluster.executors.resources import WAITING, check_bundle, check_demand, total
from pyrite.cluster.executors.waiting import CONTINUES, ROOM, WAITS, Ask, nodes_alive
from pyrite.cluster.limits import WAIT_LINE_AFTER_S, WAIT_LINE_EVERY_S
from pyrite.cluster.rollouts.ranker_host import RankerHost
from pyrite.ranking.errors import BadInput

RUNNER_CPUS = 0.1
"""Cores of a worker that only evaluates the network while its host trains."""
Log = Callable[[str, str], None]
"""Called with the kind of an event and a line about it."""


def workers_of(config: Mapping[str, Any], nodes: Sequence[Mapping[str, float]]) -> int:
    """Return the number of processes that step environments: the configured one, or what the cores share evenly.

    Without hosts, it is at most the number that the nodes have room for next to the learners; 0 if there is none.
    """
    if config["hosts"]:
        return int(config["hosts"] if config["workers"] is None else config["workers"])
    cpus, copies, wanted = config["resources"]["cpu"], config["copies"], config["workers"]
    room = sum(int(node.get("CPU", 0) // cpus) for node in nodes) - build(config["agent"], trust="composed").learners
    bound = room if wanted is None else min(wanted, room)
    return max((share for share in range(1, bound + 1) if copies % share == 0), default=0)


def check_room(config: Mapping[str, Any]) -> None:
    """Raise `BadInput` if a learning asks for more than a local Ray, which never grows, has in all."""
    if is_cluster(config["address"]):
        return
    present, learners = ray.cluster_resources(), build(config["agent"], trust="composed").learners
    check_demand(config["resources"], present)
    if learners:
        needed = {"CPU": (learners + 1) * config["resources"]["cpu"]}
        check_bundle(needed, present, f"learning with agent.learners={learners}", "resources.", "choose fewer")


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
    return [first, *bundles, *([{"CPU": resources["cpu"], **gpu}] * build(config["agent"], trust="composed").learners)]


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
    wanted, on_cluster = config["workers"], is_cluster(config["address"])
    workers = wanted if wanted is not None and on_cluster else _room(config)
    seconds, said = WAIT_LINE_AFTER_S, wanted or 0
    while True:
        if workers < said:
            log("fewer workers", f"workers={wanted}: learning continues with {workers}, and the result is the same")
            said = workers
        bundles = bundles_of(config, workers)
        group = placement_group(bundles, strategy=strategy)
        if group.wait(seconds):
            if seconds == WAIT_LINE_EVERY_S:
                log(CONTINUES, ROOM)
            return group, workers
        remove_placement_group(group)
        if config["hosts"] and not on_cluster:
            needed = f"{config['hosts']} hosts with {config['resources']['cpu']} cores"
            needed += f" and {config['resources']['gpu']:g} GPUs each"
            remedy = "choose fewer, or smaller resources.cpu and resources.gpu"
            raise BadInput(f"this machine has no room for {needed}", "hosts", remedy)
        if (room := _room(config)) >= workers:
            ask = Ask("learning", (total(bundles),) if strategy == "STRICT_PACK" else tuple(bundles))
            log(WAITS, ask.lack(nodes_alive()) or f"learning waits for nodes that are in use: it needs {ask.needs}")
            seconds = WAIT_LINE_EVERY_S
        workers = min(workers, room)


def _room(config: Mapping[str, Any]) -> int:
    """Return the number of workers to reserve now; at least one, unless the learner's process steps the copies."""
    return 0 if config["workers"] == 0 else max(1, workers_of(config, nodes_alive()))
