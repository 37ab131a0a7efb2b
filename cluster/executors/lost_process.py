"""Distinguishes lost processes and machines from errors of the work itself.

Work that is lost continues from its last state, so that the results are the same:

- a trial: Ray Tune starts it again (`tune_failures`), with more of a machine if it was killed for memory;
- one of several workers of a run: Ray Train starts all of them again (`training.coordinator`);
- the negative index: its actor starts again over the versions on disk, and readers wait (`index.client`);
- a worker or ranker host of an agent: the learning returns to its last state (`rollouts.backends`);
- any other task: `RayExecutor` runs it again;
- the command itself, or the head of the cluster: `--resume` (`commands.experiment.Experiment.read`).

If a machine is taken away on notice (`drain`), runs and learnings save their state first.
"""

from __future__ import annotations

from ray import exceptions

LOW_MEMORY = ("node running low on memory", "OutOfMemoryError")
"""Parts of Ray's messages about processes that were killed for memory."""
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


def cause_of(error: BaseException) -> BaseException:
    """Return the error that a task raised, without Ray's wrapping."""
    while isinstance(error, exceptions.RayTaskError) and isinstance(error.cause, BaseException):
        error = error.cause
    return error


def is_loss(error: BaseException) -> bool:
    """Return whether an error means that a process or a machine is gone."""
    return isinstance(cause_of(error), LOST)


def killed_for_memory(error: BaseException) -> bool:
    """Return whether Ray's memory monitor has ended a process. At the start of a process only the text reports it."""
    error = cause_of(error)
    if isinstance(error, exceptions.OutOfMemoryError):
        return True
    return isinstance(error, exceptions.RayActorError) and any(sign in str(error) for sign in LOW_MEMORY)
