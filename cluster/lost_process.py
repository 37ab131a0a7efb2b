"""Tells lost processes and machines from errors of the work itself."""

from __future__ import annotations

from ray import exceptions

MAX_FAILURES_WITHOUT_PROGRESS = 5
"""Losses in a row that work survives without coming any further: after that it is itself to blame."""
LOST = (
    exceptions.RayActorError,
    exceptions.WorkerCrashedError,
    exceptions.NodeDiedError,
    exceptions.LocalRayletDiedError,
    exceptions.ObjectLostError,
    exceptions.OutOfMemoryError,
    exceptions.ActorPlacementGroupRemoved,
    exceptions.TaskPlacementGroupRemoved,
)


def is_loss(error: BaseException) -> bool:
    """Whether this is a process or machine that is gone, and nothing that the work did."""
    while isinstance(error, exceptions.RayTaskError) and isinstance(error.cause, BaseException):
        error = error.cause
    return isinstance(error, LOST)
