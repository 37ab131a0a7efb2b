"""Starts the workers of a run with Ray Train, and passes on what they report."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Callable
from typing import Any

from cluster.executors.resources import bundle, strategy
from ranking.errors import BadInput

# Nothing of ours that is slow to import stands here: every run waits for this process and for Ray Train's own.

RESTARTS = 3
"""Times that the workers start again after one was lost; nodes that are taken away on notice do not count."""
TIMEOUT = 6 * 3600
"""Seconds that a worker waits for the others: one may be waiting for an index. Lost ones are noticed much sooner."""


class WorkerCoordinator:
    """Starts a run's workers with Ray Train; they live as long as it does. Holds their progress, state and outcome.

    An actor whose methods are called side by side. States and outcomes pass through it as bytes of
    `ranking.checkpoint`.
    """

    def __init__(self) -> None:
        self._told: list[dict[str, Any] | str] = []
        self._state: bytes | None = None
        self._shards: dict[str, bytes] = {}
        self._outcome: bytes | None = None
        self._places: list[Any] = []

    def run_workers(self, work: Callable[[], None], asked: dict[str, Any]) -> bytes:
        """Let every worker do its work, and again from the last state where one of them is lost.

        Args:
            work: what each does; the first of them calls `finish`.
            asked: `resources` of the run.

        Returns:
            The outcome.

        Raises:
            BadInput: where a worker has met bad input.
            ray.train.TrainingFailedError: where workers failed too often.
        """
        from ray.train import ControllerError, FailureConfig, RunConfig
        from ray.train.torch import TorchConfig, TorchTrainer

        os.environ["RAY_CHDIR_TO_TRIAL_DIR"] = "0"  # relative paths of the configuration stay good
        # At such a notice the first worker ends by itself (`training.workers`). Ray Train would wait for the others,
        # and they for it, until the machine is gone.
        os.environ["RAY_TRAIN_ENABLE_PREEMPTION_WATCHER"] = "0"
        with tempfile.TemporaryDirectory() as folder:  # Ray Train wants one; our states are kept elsewhere
            trainer = TorchTrainer(
                work,
                # Two workers on one GPU are more than nccl can join.
                torch_config=TorchConfig(backend="nccl" if asked["gpu"] >= 1 else "gloo", timeout_s=TIMEOUT),
                scaling_config=_scaling(asked),
                run_config=RunConfig(
                    name=f"pyrite-{uuid.uuid4().hex[:8]}",
                    storage_path=folder,
                    failure_config=FailureConfig(max_failures=RESTARTS),
                    callbacks=[_refusal()],
                ),
            )
            try:
                trainer.fit()
            except ControllerError as error:
                if isinstance(error.controller_failure, BadInput):
                    raise error.controller_failure from None
                raise
        assert self._outcome is not None
        return self._outcome

    def report(self, told: dict[str, Any] | str) -> None:
        """Add progress of the run, or a line for the user."""
        self._told.append(told)

    def drain(self) -> list[dict[str, Any] | str]:
        """Progress and lines since this was last asked."""
        told, self._told = self._told, []
        return told

    def add_placement_group(self, place: Any) -> None:
        """Note a placement group of the workers."""
        self._places.append(place)

    def placement_groups(self) -> list[Any]:
        """The placement groups that the workers have had."""
        return self._places

    def finish(self, outcome: bytes) -> None:
        """Keep the outcome of the run."""
        self._outcome = outcome

    def load(self) -> bytes | None:
        """The last state that was kept here."""
        return self._state

    def save(self, state: bytes) -> None:
        """Keep a state in memory."""
        self._state = state

    def load_shard(self, name: str) -> bytes | None:
        """What one worker has kept of a state."""
        return self._shards.get(name)

    def save_shard(self, name: str, rows: bytes) -> None:
        """Keep what is one worker's of a state."""
        self._shards[name] = rows

    def drop_shards(self, but: list[str]) -> None:
        """Forget what workers have kept, but for some names."""
        self._shards = {name: rows for name, rows in self._shards.items() if name in but}


def _scaling(asked: dict[str, Any]) -> Any:
    from ray.train import ScalingConfig

    most, least = asked["workers"], asked["least"] or asked["workers"]
    number: Any = most if least >= most else (least, most)
    return ScalingConfig(
        num_workers=number,
        use_gpu=asked["gpu"] > 0,
        resources_per_worker=bundle(asked),
        placement_strategy=strategy(asked),
    )


def _refusal() -> Any:
    from ray.train import UserCallback

    class Refusal(UserCallback):
        """Bad input is as bad the next time: it ends the run instead of starting the workers again."""

        def after_exception(self, run_context: Any, worker_exceptions: dict[int, Exception]) -> None:
            for error in worker_exceptions.values():
                if isinstance(error, BadInput):
                    raise error

    return Refusal()
