"""Names actors so that users recognize them in Ray's dashboard."""

from __future__ import annotations

import uuid

from cluster.executors.session import connected


def own_name(otherwise: str) -> str:
    """Return the name of this process's actor, or `otherwise` if it is no actor or has no name."""
    if not connected():
        return otherwise
    import ray

    context = ray.get_runtime_context()
    if context.worker.mode != ray.WORKER_MODE:  # in a driver Ray would log a warning
        return otherwise
    return context.get_actor_name() or otherwise


def unique(name: str) -> str:
    """Return a unique name, since Ray refuses the name of an actor that is still ending."""
    return f"{name}#{uuid.uuid4().hex[:6]}"
