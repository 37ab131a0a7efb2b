"""Checks that the nodes of a cluster can use what a command names, before its first run."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pyrite.cluster.config.quoting import PATHS
from pyrite.cluster.executors.nodes import alive_nodes
from pyrite.cluster.lazy import ray
from pyrite.cluster.limits import REACH_S
from pyrite.cluster.output.storage import Storage
from pyrite.ranking.errors import BadInput

KEYS = "give the nodes its keys, in the environment of `ray start` or of their pods"
SHARED = "name a URI, or a folder that every node sees"


def local_paths(options: Any, key: str = "") -> Iterator[str]:
    """Yield the absolute paths that options name by keys of `PATHS`, and that exist on this machine."""
    if isinstance(options, Mapping):
        for name, value in options.items():
            yield from local_paths(value, str(name))
    elif isinstance(options, list | tuple):
        for value in options:
            yield from local_paths(value, key)
    elif isinstance(options, str) and key in PATHS and os.path.exists(path := os.path.abspath(options)):
        yield path


def check_nodes(storage: Storage | None, reads: Iterable[str] = ()) -> None:
    """Raise `BadInput` if a node that has cores can't write to the output folder, or lacks a path.

    A node that does not answer in `REACH_S` is not checked, and neither are those that join later: their runs fail,
    each with one line, and a run that can't write ends the command.

    Args:
        reads: absolute paths of this machine.
    """
    nodes = [node for node in alive_nodes() if node["Resources"].get("CPU")]
    probe: Any = ray.remote(num_cpus=0, max_retries=0)(_refusal)
    place, option = (None, "") if storage is None else storage.__reduce__()[1]
    with _sign(storage) as sign:
        strategies = (
            ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in nodes
        )
        arguments = (place, option, sign, sorted(set(reads)))
        answers = {
            probe.options(scheduling_strategy=strategy).remote(*arguments): node["NodeManagerAddress"]
            for strategy, node in zip(strategies, nodes, strict=True)
        }
        ready, late = ray.wait(list(answers), num_returns=len(answers), timeout=REACH_S) if answers else ([], [])
        for each in late:
            ray.cancel(each, force=True)
        for each in ready:
            with contextlib.suppress(ray.exceptions.RayError):  # a node that is lost now
                if (refusal := ray.get(each)) is not None:
                    what, where, remedy = refusal
                    raise BadInput(f"node {answers[each]} of the cluster {what}", where, remedy)


@contextlib.contextmanager
def _sign(storage: Storage | None) -> Iterator[str]:
    """Write a hidden file into the output folder, by which nodes see that theirs is the same one."""
    name = f".reach-{uuid.uuid4().hex[:8]}"
    if storage is None:
        yield name
        return
    storage.write(name, b"")
    try:
        yield name
    finally:
        storage.delete(name)


def _refusal(place: str | None, option: str, sign: str, reads: Sequence[str]) -> tuple[str, str, str] | None:
    """Return what this node can't do, with what, and a remedy: a task's body."""
    if place is not None:
        remedy = KEYS if "://" in place else SHARED
        try:
            storage = Storage(place, option)
            if storage.read(sign) is None:
                return f"does not see {option}=", place, remedy
            own = f"{sign}-{uuid.uuid4().hex[:8]}"
            storage.write(own, b"")
            storage.delete(own)
        except BadInput as error:
            return f"can't write to {option}= ({error.what})", place, remedy
    missing = next((path for path in reads if not os.path.exists(path)), None)
    return None if missing is None else ("does not have it", missing, "put it where every node sees it")
