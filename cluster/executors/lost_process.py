"""Tells lost processes and machines from errors of the work itself.

Where a process or a machine is lost, whoever waits for it goes back to what was kept last, and what comes out is what
would have come out anyway:

- a trial: Ray Tune starts it again, elsewhere if need be, from the run's last state (`tune.failures`); one that was
  killed for memory with more of a machine;
- a worker of a run with several: Ray Train starts all again from the run's last state (`training.coordinator`);
- the negative index: its actor is started again over the versions on disk, and readers wait (`index.client`);
- an agent's worker or ranker host: the whole learning goes back to its last state (`rollouts.failures`);
- a shard of mined negatives, or a fork: Ray repeats the task;
- the command itself, or the cluster's head: `--resume` (`commands.experiment.Experiment.read`).

Where a machine is taken away on notice (`drain`), a run and a learning keep their state at once and end the same way.
"""

from __future__ import annotations

from ray import exceptions

MAX_FAILURES_WITHOUT_PROGRESS = 5
"""Losses in a row that work survives without coming any further: after that it is itself to blame."""
LOW_MEMORY = ("node running low on memory", "OutOfMemoryError")
"""Ray's words."""
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
    """What a task's error was where it was raised."""
    while isinstance(error, exceptions.RayTaskError) and isinstance(error.cause, BaseException):
        error = error.cause
    return error


def is_loss(error: BaseException) -> bool:
    """Whether this is a process or machine that is gone, and nothing that the work did."""
    return isinstance(cause_of(error), LOST)


def killed_for_memory(error: BaseException) -> bool:
    """Whether Ray's memory monitor has ended a process.

    Where that met the start of the process, the error is like those of any other end, and says so in its text alone.
    """
    error = cause_of(error)
    if isinstance(error, exceptions.OutOfMemoryError):
        return True
    return isinstance(error, exceptions.RayActorError) and any(sign in str(error) for sign in LOW_MEMORY)
