"""Lists the machines of the Ray that this process has joined."""

from __future__ import annotations

from typing import Any

from pyrite.cluster.lazy import ray


def alive_nodes() -> list[dict[str, Any]]:
    """Return Ray's description of each node that is alive."""
    return [node for node in ray.nodes() if node["Alive"]]
