"""What runs on several workers take of a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ranking.errors import BadInput

WAITING = float(1 << 28)
"""Bytes that a trial's own process is counted with while its workers train."""


def check_workers(asked: Mapping[str, Any]) -> None:
    """Hold the options of several workers against each other.

    Raises:
        BadInput: where they make no sense together.
    """
    if asked["least"] is not None and asked["least"] > asked["workers"]:
        what = f"least is {asked['least']} and there are {asked['workers']} workers to begin with"
        raise BadInput(what, "resources.least", "choose no more than resources.workers")
    if asked["shard"] and asked["workers"] == 1:
        raise BadInput(
            "there is one worker to hold everything", "resources.shard", "choose resources.workers=2 or more"
        )


def own_bundle(asked: Mapping[str, Any]) -> dict[str, float]:
    """What a run's own process takes: its workers, where it has some, are a placement group of Ray Train's.

    Args:
        asked: `resources` of the run.
    """
    return {"CPU": asked["cpu"], "GPU": asked["gpu"]} if asked["workers"] == 1 else {"memory": WAITING}


def demand(asked: Mapping[str, Any]) -> dict[str, float]:
    """CPUs and GPUs of a run, all workers together."""
    return {"CPU": asked["cpu"] * asked["workers"], "GPU": asked["gpu"] * asked["workers"]}


def check_demand(asked: Mapping[str, Any], there: Mapping[str, float]) -> None:
    """A local Ray never grows: a run that asks for more than it has would wait for ever.

    Raises:
        BadInput: where there is too little.
    """
    for name, wanted in demand(asked).items():
        if wanted > there.get(name, 0):
            remedy = None if asked["workers"] == 1 else "choose fewer resources.workers"
            what = f"a run asks for {wanted:g} and this machine has {there.get(name, 0):g}"
            raise BadInput(what, f"resources.{name.lower()}", remedy)


def at_once(runs: Sequence[Mapping[str, Any]], there: Mapping[str, float]) -> int | None:
    """How many trials to start at once where runs have several workers; None leaves it to Tune.

    Ray Tune does not see what Ray Train takes, and would start every trial, each a process that waits for its workers.

    Args:
        runs: `resources` of each.
        there: CPUs and GPUs of the cluster.
    """
    shared = [demand(asked) for asked in runs if asked["workers"] > 1]
    if not shared:
        return None
    rooms = (there.get(name, 0) // wanted for each in shared for name, wanted in each.items() if wanted)
    return max(1, int(min(rooms)))
