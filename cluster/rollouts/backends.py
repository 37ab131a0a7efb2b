"""Steps the copies of the environment in workers, or on ranker hosts that workers call."""

from __future__ import annotations

import functools
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import polars as pl
import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.queue import Empty, Queue
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from cluster.executors.drain import draining, leave, nodes_of_job
from cluster.output.storage import Storage
from cluster.rollouts.checkpoints import STATE
from cluster.rollouts.environments import Environments
from cluster.rollouts.hosted_copies import HostedCopies
from cluster.rollouts.ranker_host import RankerHost
from cluster.rollouts.trainer import Progress, RolloutBackend, Tell, train_agent
from cluster.runs.execute import Leave
from ranking.errors import BadInput

LIGHT = 0.1
"""Cores of a worker that only asks the network what to do, while its host trains."""
FEASIBLE = 60.0
"""Seconds that a cluster has to make room for the hosts."""
REPLACED = 600.0
"""Seconds that it has where they had room before: a machine that was lost is replaced in minutes."""


def in_workers(config: dict[str, Any], shared: Mapping[str, Any] | None) -> RolloutBackend:
    """Each worker holds its own rankers; their collection is in Ray's object store once a machine.

    Args:
        config: of a learning.
        shared: its parts there, by name; None: read from the cache.
    """
    return RolloutBackend(
        functools.partial(Environments, config, shared), workers_of(config), config["resources"]["cpu"]
    )


def workers_of(config: dict[str, Any]) -> int:
    """How many processes step the copies: as configured, or as many as there are cores to share them out among."""
    if config["workers"] is not None or config["hosts"]:
        return int(config["hosts"] if config["workers"] is None else config["workers"])
    cores = int(ray.cluster_resources().get("CPU", 1)) // config["resources"]["cpu"]
    return max(each for each in range(1, max(cores, 1) + 1) if config["copies"] % each == 0)


@dataclass(frozen=True)
class Hosted:
    """Makes copies that hosts hold.

    Args:
        hosts: names of the actors; neighbouring copies share one.
        total: copies of the learning.
        offset: added to the number of each copy.
    """

    hosts: Sequence[str]
    total: int
    offset: int = 0

    def __call__(self, first: int, count: int) -> HostedCopies:
        host = self.hosts[first * len(self.hosts) // self.total]
        return HostedCopies(host, self.offset + first, count)


def attempts(
    config: dict[str, Any], parts: Mapping[str, Any], storage: Storage, facts: Mapping[str, Any]
) -> Callable[[Tell], pl.DataFrame]:
    """What learns from the last state to the end, or until a process is lost, as often as it is called.

    Args:
        config: of a learning.
        parts: of the configuration.
        storage: the folder.
        facts: of the agent's file.
    """
    if config["hosts"]:
        return lambda tell: train_on_hosts(config, storage, tell, facts, f"learn-{uuid.uuid4().hex[:6]}")
    shared = {name: ray.put(part) for name, part in parts.items()}

    def attempt(tell: Tell) -> pl.DataFrame:
        on_notice = leaves_machines_of_job(ray.get_runtime_context().get_node_id())
        # Workers are counted anew each time: there may be fewer cores than before.
        return train_agent(config, in_workers(config, shared), parts, storage, tell, facts, on_notice)

    return attempt


def leaves_machines_of_job(home: str) -> Leave:
    """Ends a learning where a machine that it uses is to be taken away.

    Those that were to be when it began are none of them: Ray has started nothing there.

    Args:
        home: machine of the command, which must stay.
    """
    before = draining()
    return functools.partial(leave, nodes=lambda: nodes_of_job(home) - before)


def train_on_hosts(
    config: dict[str, Any], storage: Storage, tell: Tell, facts: Mapping[str, Any], name: str
) -> pl.DataFrame:
    """Train on ranker hosts, all in one placement group: from the last state to the end, or until a process is lost.

    Args:
        config: of a learning, with `hosts` above 0.
        storage: the folder.
        tell: told the progress.
        facts: of the agent's file.
        name: of the learning, unique on the cluster; hosts are called `NAME-host-0`, `NAME-host-1`, …
    """
    workers = workers_of(config)
    # One that has begun has had room, and the machine that it lost may come back.
    patience = FEASIBLE if storage.read(STATE) is None else REPLACED
    with ranker_hosts(config, workers, name, patience) as (group, names):
        # On this node, which the learning needs anyway, and whose loss ends it.
        home = ray.get_runtime_context().get_node_id()
        here = NodeAffinitySchedulingStrategy(home, soft=False)
        queue = Queue(actor_options={"num_cpus": 0, "name": f"{name}-progress", "scheduling_strategy": here})
        strategy = PlacementGroupSchedulingStrategy(group, 0, placement_group_capture_child_tasks=True)
        named = ray.remote(num_cpus=LIGHT, max_retries=0)(_learn)
        body = named.options(name=f"{name}-learner", scheduling_strategy=strategy)
        result = body.remote(config, names, workers, storage, dict(facts), queue, home)
        try:
            while not ray.wait([result], timeout=0)[0]:
                _pass_on(queue, tell)
            episodes: pl.DataFrame = ray.get(result)
        finally:
            ray.cancel(result, force=True)
            queue.shutdown(force=True)
    return episodes


def _pass_on(queue: Queue, tell: Tell) -> None:
    """Tell the newest that there is."""
    newest: Progress | None = None
    try:
        newest = queue.get(timeout=0.5)
        while True:
            newest = queue.get(block=False)
    except Empty:
        if newest is not None:
            tell(newest)


def _learn(
    config: dict[str, Any],
    hosts: Sequence[str],
    workers: int,
    storage: Storage,
    facts: dict[str, Any],
    queue: Queue,
    home: str,
) -> pl.DataFrame:
    """The learner's own process, beside its workers and hosts."""
    last = 0.0

    def tell(progress: Progress) -> None:
        nonlocal last
        if (
            time.monotonic() - last > 1 or progress.episodes >= progress.wanted
        ):  # a call each update would cost more than it
            queue.put(progress)
            last = time.monotonic()

    hosted = functools.partial(Hosted, hosts, config["copies"])
    backend = RolloutBackend(hosted, workers, LIGHT)
    parts = Environments(config).parts()
    return train_agent(config, backend, parts, storage, tell, facts, leaves_machines_of_job(home))


@contextmanager
def ranker_hosts(config: dict[str, Any], workers: int, name: str, patience: float) -> Iterator[tuple[Any, list[str]]]:
    """A placement group for the learner, its workers and their hosts, and the hosts in it.

    RLlib puts worker k into bundle k. A host shares the bundle of its first worker; with one host everything is on
    one machine, with several it is packed onto as few as can hold it, unless `resources.placement` is to spread it.
    """
    hosts, asked = config["hosts"], config["resources"]
    each = workers // hosts
    bundles: list[dict[str, float]] = [{"CPU": LIGHT}, *({"CPU": LIGHT} for _ in range(workers))]
    for host in range(hosts):
        gpu = {"GPU": asked["gpu"]} if asked["gpu"] else {}
        bundles[1 + host * each] = {"CPU": LIGHT + asked["cpu"], **gpu, **(asked["custom"] or {})}
    together = "STRICT_PACK" if hosts == 1 else "PACK"
    group = placement_group(bundles, strategy="SPREAD" if asked["placement"] == "spread" else together)
    actors: list[Any] = []
    try:
        if not group.wait(patience):
            raise BadInput(
                f"the cluster has no room for {hosts} hosts with {asked['cpu']} cores and {asked['gpu']:g} GPUs each",
                "hosts",
                "choose fewer, or smaller resources.cpu and resources.gpu",
            )
        names = [f"{name}-host-{host}" for host in range(hosts)]
        for host, own in enumerate(names):
            options = ray.remote(RankerHost).options(
                name=own,
                num_cpus=asked["cpu"],
                num_gpus=asked["gpu"],
                resources=asked["custom"] or {},
                max_restarts=0,
                max_task_retries=0,
                scheduling_strategy=PlacementGroupSchedulingStrategy(group, 1 + host * each),
            )
            actors.append(options.remote(config))
        yield group, names
    finally:
        for actor in actors:
            ray.kill(actor)
        remove_placement_group(group)
