"""Computes what runs take of a cluster."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ranking.errors import BadInput

GB = 1e9
WAITING = float(1 << 28)
"""Bytes that a trial's own process is counted with while its workers train."""


@dataclass(frozen=True)
class Resources:
    """What a task takes of a machine.

    Args:
        cpu, gpu: cores and cards; shares of one are allowed.
        memory: bytes to reserve; None reserves nothing.
        custom: resources of the cluster's nodes, by name.
        here: whether the task must run on this machine.
        beside: what else of the cluster it takes, one mapping per process (Ray Tune).
        strategy: how Ray places these, e.g. PACK or SPREAD.
    """

    cpu: float = 1
    gpu: float = 0
    memory: float | None = None
    custom: Mapping[str, float] = field(default_factory=dict)
    here: bool = False
    beside: tuple[Mapping[str, float], ...] = ()
    strategy: str = "PACK"

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Resources:
        """Read the options `cpu`, `gpu`, `memory` (in GB) and `custom`."""
        memory = options["memory"] * GB if options["memory"] else None
        return cls(options["cpu"], options["gpu"], memory, options["custom"] or {})

    @classmethod
    def of_run(cls, options: Mapping[str, Any]) -> Resources:
        """Read a run's `resources`. If it has several workers, which Ray Train places, its own process takes little."""
        return cls.of(options) if options["workers"] == 1 else cls(cpu=0, memory=WAITING)

    def bundle(self) -> dict[str, float]:
        """Return what it takes, by Ray's names."""
        memory = {"memory": self.memory} if self.memory else {}
        return {"CPU": self.cpu, "GPU": self.gpu, **memory, **self.custom}

    def ray_options(self) -> dict[str, Any]:
        """Return the options of a Ray task or actor."""
        options: dict[str, Any] = {"num_cpus": self.cpu, "num_gpus": self.gpu}
        if self.memory:
            options["memory"] = int(self.memory)
        if self.custom:
            options["resources"] = dict(self.custom)
        if self.here:
            import ray
            from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

            node = ray.get_runtime_context().get_node_id()
            options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(node, soft=False)
        return options


def bundle(asked: Mapping[str, Any]) -> dict[str, float]:
    """What a run, or each of its workers, takes.

    Args:
        asked: `resources` of the run, or the options of a verb that are called the same.
    """
    memory = {"memory": asked["memory"] * GB} if asked["memory"] else {}
    return {"CPU": asked["cpu"], "GPU": asked["gpu"], **memory, **(asked["custom"] or {})}


def own_bundle(asked: Mapping[str, Any]) -> dict[str, float]:
    """What a run's own process takes: its workers, where it has some, are a placement group of Ray Train's.

    Args:
        asked: `resources` of the run.
    """
    return bundle(asked) if asked["workers"] == 1 else {"memory": WAITING}


def strategy(asked: Mapping[str, Any]) -> str:
    """How Ray places what belongs together, in its own words.

    Args:
        asked: `resources` of the run.
    """
    return str(asked["placement"]).upper()


def demand(asked: Mapping[str, Any]) -> dict[str, float]:
    """What a run takes, all workers together."""
    return {name: each * asked["workers"] for name, each in bundle(asked).items()}


def may_grow(address: str | None) -> bool:
    """Whether a Ray is a cluster, to which machines may be added, and no local one.

    Args:
        address: as the user gave it.
    """
    return bool(address or os.environ.get("RAY_ADDRESS"))


def check_demand(asked: Mapping[str, Any], there: Mapping[str, float]) -> None:
    """A local Ray never grows: a run that asks for more than it has would wait for ever.

    Raises:
        BadInput: where there is too little.
    """
    remedy = None if asked["workers"] == 1 else "choose fewer resources.workers"
    check_bundle(demand(asked), there, "a run", "resources.", remedy)


def check_bundle(
    wanted: Mapping[str, float], there: Mapping[str, float], who: str, prefix: str = "", remedy: str | None = None
) -> None:
    """See that what somebody asks for is there.

    Args:
        wanted: `bundle`, or `demand`.
        there: resources of the cluster, as it is now.
        who: asks, in messages.
        prefix: of the options' keys.
        remedy: what to do.

    Raises:
        BadInput: where there is too little.
    """
    for name, amount in wanted.items():
        if amount > there.get(name, 0):
            unit = GB if name == "memory" else 1
            what = f"{who} asks for {amount / unit:g} and this machine has {there.get(name, 0) / unit:g}"
            where = name.lower() if name in ("CPU", "GPU", "memory") else f"custom.{name}"
            raise BadInput(what, f"{prefix}{where}", remedy)


def process_options(asked: Mapping[str, Any]) -> dict[str, Any]:
    """What a task or an actor takes, in Ray's own words.

    Args:
        asked: `resources` of a run, or the options of a verb that are called the same.
    """
    found = bundle(asked)
    named = {"num_cpus": found.pop("CPU"), "num_gpus": found.pop("GPU")}
    memory = {"memory": int(found.pop("memory"))} if "memory" in found else {}
    return {**named, **memory, **({"resources": found} if found else {})}


def at_once(demands: Sequence[Mapping[str, float]], there: Mapping[str, float]) -> int | None:
    """How many trials there is room for where runs have several workers; None leaves it to Tune.

    Ray Tune does not see what Ray Train takes, and would start every trial, each a process that waits for its workers.

    Args:
        demands: what each run with several workers takes, its encoders included.
        there: resources of the cluster, as it is now.
    """
    if not demands:
        return None
    rooms = (there.get(name, 0) // wanted for each in demands for name, wanted in each.items() if wanted)
    return max(1, int(min(rooms)))
