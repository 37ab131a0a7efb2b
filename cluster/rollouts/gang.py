"""Reserves the placement group of a learning: its first process, its workers and its learners."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ray
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group

from pyrite.cluster.config.build import build
from pyrite.cluster.executors.address import is_cluster
from pyrite.cluster.executors.resources import WAITING, Resources, check_bundle, rooms, total
from pyrite.cluster.executors.waiting import CONTINUES, ROOM, WAITS, Ask, nodes_alive
from pyrite.cluster.limits import WAIT_LINE_AFTER_S, WAIT_LINE_EVERY_S

Log = Callable[[str, str], None]
"""Called with the kind of an event and a line about it."""


def bundles_of(config: Mapping[str, Any], workers: int) -> list[dict[str, float]]:
    """Return what the processes of a learning take: the first one's, each worker's, each learner's.

    RLlib puts worker k into bundle k. The first process computes while the workers wait, so it takes cores only if it
    steps the copies itself.
    """
    one = {kind: amount for kind, amount in Resources.of(config["resources"]).bundle().items() if amount}
    learners = build(config["agent"], trust="composed").learners
    return [{"memory": WAITING} if workers else one, *[one] * (workers + learners)]


def workers_of(config: Mapping[str, Any], nodes: Sequence[Mapping[str, float]]) -> int:
    """Return the number of processes that step environments: the configured one, or one per core.

    It is at most the number that the nodes have room for next to the learners, but one if there is no room at all, and
    shares the copies evenly.
    """
    copies, (_, one, *learners) = config["copies"], bundles_of(config, 1)
    most = copies if config["workers"] is None else config["workers"]
    room = rooms([one], nodes, most + len(learners)) - len(learners)
    return max((share for share in range(1, room + 1) if copies % share == 0), default=min(1, most))


def check_room(config: Mapping[str, Any]) -> None:
    """Raise `BadInput` if a learning asks for more than a local Ray, which never grows, has in all."""
    if not is_cluster(config["address"]):
        learners = build(config["agent"], trust="composed").learners
        name = f"learning with agent.learners={learners}" if learners else "learning"
        check_bundle(total(bundles_of(config, 0)), ray.cluster_resources(), name, "resources.", "choose fewer")


def reserve(config: Mapping[str, Any], log: Log) -> tuple[PlacementGroup, int]:
    """Return a placement group, once it is there, and its number of workers: fewer if nodes have no room for all."""
    wanted = config["workers"]
    workers, seconds = workers_of(config, nodes_alive()), WAIT_LINE_AFTER_S
    if is_cluster(config["address"]):  # which may grow
        workers = workers if wanted is None else wanted
    while True:
        bundles = bundles_of(config, workers)
        group = placement_group(bundles, strategy=config["resources"]["placement"].upper())
        if group.wait(seconds):
            break
        remove_placement_group(group)
        room = workers_of(config, nodes_alive())
        if room >= workers:
            ask = Ask("learning", tuple(bundles))
            log(WAITS, ask.lack(nodes_alive()) or f"learning waits for nodes that are in use: it needs {ask.needs}")
            seconds = WAIT_LINE_EVERY_S
        workers = min(workers, room)
    if seconds == WAIT_LINE_EVERY_S:
        log(CONTINUES, ROOM)
    if wanted is not None and workers < wanted:
        log("fewer workers", f"workers={wanted}: learning continues with {workers}, and the result is the same")
    return group, workers
