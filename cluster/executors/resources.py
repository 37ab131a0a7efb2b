"""Computes what runs take of a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyrite.cluster.lazy import ray
from pyrite.cluster.limits import MOST_AT_ONCE
from pyrite.ranking.errors import refuse

GB = 1e9
UNITS = {"memory": GB}
"""Units of amounts in messages; others are 1."""
NAMES = {"CPU": ("core", "cores"), "GPU": ("GPU", "GPUs"), "memory": ("GB of memory", "GB of memory")}
"""The words for one and for several of a resource."""
FIELDS = {"CPU": "cpu", "GPU": "gpu", "memory": "memory"}
"""Options and fields of `Resources`, by Ray's names."""
WAITING = float(1 << 28)
"""Bytes that a trial's own process is counted with while its workers train."""


@dataclass(frozen=True)
class Resources:
    """The resources of a machine that a task takes.

    Args:
        cpu, gpu: cores and cards; shares of one are allowed.
        memory: bytes to reserve; None reserves nothing.
        custom: resources of the cluster's nodes, by name.
        here: whether the task must run on this machine.
        beside: what else of the cluster it takes, one mapping per process (Ray Tune).
        later: what it takes once it runs, one mapping per process, for which it reserves nothing.
        strategy: how Ray places these, e.g. PACK or SPREAD.
    """

    cpu: float = 1
    gpu: float = 0
    memory: float | None = None
    custom: Mapping[str, float] = field(default_factory=dict)
    here: bool = False
    beside: tuple[Mapping[str, float], ...] = ()
    later: tuple[Mapping[str, float], ...] = ()
    strategy: str = "PACK"

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Resources:
        """Read the options `cpu`, `gpu`, `memory` (in GB) and `custom`."""
        memory = options["memory"] * GB if options["memory"] else None
        return cls(options["cpu"], options["gpu"], memory, options["custom"] or {})

    @classmethod
    def of_run(cls, options: Mapping[str, Any]) -> Resources:
        """Read a run's `resources`. If it has several workers, which Ray Train places, its process takes little."""
        return cls.of(options) if options["workers"] == 1 else cls(cpu=0, memory=WAITING)

    def bundle(self) -> dict[str, float]:
        """Return what it takes, by Ray's names."""
        memory = {"memory": self.memory} if self.memory else {}
        return {"CPU": self.cpu, "GPU": self.gpu, **memory, **self.custom}

    def bundles(self) -> tuple[Mapping[str, float], ...]:
        """Return what each of its processes takes, `beside` and `later` too."""
        return (self.bundle(), *self.beside, *self.later)

    def ray_options(self) -> dict[str, Any]:
        """Return the options of a Ray task or actor."""
        options: dict[str, Any] = {"num_cpus": self.cpu, "num_gpus": self.gpu}
        if self.memory:
            options["memory"] = int(self.memory)
        if self.custom:
            options["resources"] = dict(self.custom)
        if self.here:
            node = ray.get_runtime_context().get_node_id()
            options["scheduling_strategy"] = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
                node, soft=False
            )
        return options


def workers_bundles(options: Mapping[str, Any], count: int | None = None) -> list[dict[str, float]]:
    """Return what each worker of a run with these `resources` takes: of all of them, or of `count`."""
    return [Resources.of(options).bundle()] * (options["workers"] if count is None else count)


def demand(options: Mapping[str, Any]) -> dict[str, float]:
    """Return what a run with these `resources` takes, all of its workers together."""
    return total(workers_bundles(options))


def check_demand(options: Mapping[str, Any], present: Mapping[str, float]) -> None:
    """Raise if a run requests more than a local Ray has: it never grows, and the run would wait for ever."""
    remedy = None if options["workers"] == 1 else "choose fewer resources.workers"
    check_bundle(demand(options), present, "a run", "resources.", remedy)


def check_bundle(
    wanted: Mapping[str, float], present: Mapping[str, float], name: str, prefix: str = "", remedy: str | None = None
) -> None:
    """Raise if a machine has less than `name` requests. The keys of its options begin with `prefix`."""
    for kind, amount in wanted.items():
        has, unit = present.get(kind, 0), UNITS.get(kind, 1)
        what = f"{name} asks for {amount / unit:g} and this machine has {has / unit:g}"
        refuse(amount > has, what, f"{prefix}{FIELDS.get(kind, f'custom.{kind}')}", remedy)


def total(bundles: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return what bundles take together."""
    sums: Any = Counter()  # of shares, too
    for bundle in bundles:
        sums.update(bundle)
    return dict(sums)


def taken(bundle: Mapping[str, Any]) -> dict[str, float]:
    """Return a bundle without what it takes nothing of."""
    return dict(+Counter(bundle))


def fits(bundle: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    """Return whether a node has what a bundle takes."""
    return Counter(bundle) <= Counter(node)


def rooms(bundles: Sequence[Mapping[str, float]], nodes: Sequence[Mapping[str, float]], most: int) -> int:
    """Return how many times bundles fit on nodes, each bundle on one node: at most `most`."""
    free = [dict(node) for node in nodes]
    largest_first = sorted(bundles, key=lambda bundle: sorted(bundle.values(), reverse=True), reverse=True)
    for count in range(most):
        for bundle in largest_first:
            node = next((node for node in free if fits(bundle, node)), None)
            if node is None:
                return count
            for kind, amount in bundle.items():
                node[kind] = round(node.get(kind, 0) - amount, 4)  # Ray counts ten-thousandths
    return most


def room_for(options: Sequence[Mapping[str, Any]], nodes: Sequence[Mapping[str, float]]) -> int:
    """Return how many runs nodes have room for at once, each with some of these `resources`; at least one."""
    return max(1, min((rooms(workers_bundles(each), nodes, MOST_AT_ONCE) for each in options), default=1))


def at_once(demands: Sequence[Sequence[Mapping[str, float]]], nodes: Sequence[Mapping[str, float]]) -> int | None:
    """Return how many runs with several workers there is room for; None without any, so that Tune decides.

    Ray Tune does not see what Ray Train takes, and would start every trial, each a process that waits for its workers.

    Args:
        demands: the bundles of each run: its workers' and its encoders'.
    """
    return max(1, min(rooms(demand, nodes, MOST_AT_ONCE) for demand in demands)) if demands else None


def amounts(bundle: Mapping[str, float]) -> str:
    """Return what a bundle takes, in words: 1 core and 0.5 GPUs."""
    words = []
    for kind, amount in bundle.items():
        name, names = NAMES.get(kind, (kind, kind))
        words.append(f"{amount / UNITS.get(kind, 1):g} {name if amount == 1 else names}")
    return " and ".join(words)
