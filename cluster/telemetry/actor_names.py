"""Names actors so that a person recognises them in Ray's dashboard."""

from __future__ import annotations

import uuid

from cluster.executors.session import connected


def own_name(otherwise: str) -> str:
    """The name of the actor that this process is; `otherwise` where it is none or has none."""
    if not connected():
        return otherwise
    import ray

    context = ray.get_runtime_context()
    if context.worker.mode != ray.WORKER_MODE:  # Ray would log that a driver has no name
        return otherwise
    return context.get_actor_name() or otherwise


def unique(name: str) -> str:
    """A name that no other actor has, nor one that is just coming to its end: they are refused a second time."""
    return f"{name}#{uuid.uuid4().hex[:6]}"
