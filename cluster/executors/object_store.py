"""Checks that the parts that trials share fit into Ray's object store."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyrite.cluster.executors.nodes import alive_nodes
from pyrite.cluster.lazy import ray
from pyrite.cluster.limits import INPUTS_S
from pyrite.ranking.errors import refuse
from pyrite.ranking.lazy import psutil

SPARE = 1.25
"""Size of a store relative to its parts: it keeps results and messages too."""
MOST = 0.6
"""Largest share of the free memory for a store that we size; the rest is for the trials."""
LEAST = 75 * 1024 * 1024
"""Ray's minimum size of a store."""
REMEDY = (
    "give it more by `ray start --object-store-memory=BYTES` (of /dev/shm, which must be larger), "
    "or choose a smaller scale= or collection"
)


def bytes_of(value: Any) -> int:
    """Return the bytes that a value takes in the object store. Arrays are counted without a copy."""
    buffers: list[pickle.PickleBuffer] = []
    rest = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return len(rest) + sum(buffer.raw().nbytes for buffer in buffers)


def wanted_store(shared: int) -> int | None:
    """Return the bytes of a local Ray's store for shared ones; None leaves it to Ray: 30% of the free memory.

    Ray uses a folder on disk instead of /dev/shm if that is too small, as in a container by default (64 MB).
    """
    free = psutil.virtual_memory().available
    if os.path.isdir("/dev/shm"):
        disk = os.statvfs("/dev/shm")
        free = min(free, disk.f_bavail * disk.f_frsize)
    wanted = int(SPARE * shared)
    return wanted if max(0.3 * free, LEAST) < wanted < MOST * free else None


def largest_and_all(sizes: Sequence[Mapping[str, int]]) -> tuple[int, int]:
    """Return the bytes of the parts of the largest run, and of the parts of all runs, each key counted once."""
    parts = {key: size for of_run in sizes for key, size in of_run.items()}
    return max((sum(of_run.values()) for of_run in sizes), default=0), sum(parts.values())


def check_store(run: int, shared: int, note: Callable[[str], None]) -> None:
    """Check before anything starts that the store of this machine can hold what trials read (`largest_and_all`).

    Ray writes to disk what does not fit and reads it back when a trial needs it. That is slow but works, unless the
    parts of a single run do not fit.
    """
    own = ray.get_runtime_context().get_node_id()
    stores = {node["NodeID"]: node["Resources"].get("object_store_memory", 0.0) for node in alive_nodes()}
    room = stores[own]
    what = f"the parts of a run take {_shown(run)} and Ray's object store has {_shown(room)}"
    refuse(run > room, what, "object store", REMEDY)
    if shared > room:
        note(f"all parts take {_shown(shared)} and Ray's object store has {_shown(room)}: the rest goes to disk")
    small = sum(run > store for store in stores.values())
    if small:
        note(f"{small} of {len(stores)} nodes have an object store too small for the parts of a run: slow there")


def fetched(references: Mapping[str, Any]) -> dict[str, Any]:
    """Return values of the object store by name, without a copy. Others than references are returned as they are.

    Left out are those that a lost node keeps back: they have not come in `INPUTS_S`, although a node is dead. Ray gives
    such a node's objects up only when its connections end.
    """
    stored = {name: value for name, value in references.items() if isinstance(value, ray.ObjectRef)}
    late = _late(list(dict.fromkeys(stored.values())))
    come = {name: ray.get(value) for name, value in stored.items() if value not in late}
    return {name: come.get(name, value) for name, value in references.items() if name in come or name not in stored}


def _late(wanted: list[ray.ObjectRef]) -> set[ray.ObjectRef]:
    """Return what does not come, once all others have and a node is dead."""
    while wanted:
        _, late = ray.wait(wanted, num_returns=len(wanted), timeout=INPUTS_S)
        if not late or len(alive_nodes()) < len(ray.nodes()):
            return set(late)
    return set()


def _shown(count: float) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e7 else f"{count / 1e6:.2f} MB"
