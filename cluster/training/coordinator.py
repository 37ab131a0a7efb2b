"""Starts the workers of a run with Ray Train, and forwards their reports."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Callable
from typing import Any

from pyrite.cluster.executors.resources import Resources
from pyrite.cluster.lazy import ray
from pyrite.cluster.limits import WORKER_RESTARTS, WORKER_TIMEOUT_S
from pyrite.ranking.errors import BadInput

# Only fast imports at module level: every run waits for this process and for that of Ray Train.


class WorkerCoordinator:
    """The actor that starts a run's workers with Ray Train, and holds their reports, state and outcome.

    The workers end with it. Its methods are called concurrently. It is the `pyrite.cluster.runs.states.StateStore` of a
    run without one. States and outcomes are bytes of `pyrite.ranking.checkpoint`.
    """

    def __init__(self) -> None:
        self._reports: list[Any] = []
        self._state: bytes | None = None
        self._outcome: bytes | None = None
        self._placement_groups: list[Any] = []

    def run_workers(self, work: Callable[[], None], resources: dict[str, Any]) -> bytes:
        """Call `work` in every worker, and again from the last state if one of them is lost.

        The first worker calls `finish`. Errors are those of `pyrite.cluster.training.workers.run_on_workers`.
        """

        from pyrite.cluster.executors.lost_process import bad_input

        class Refusal(ray.train.UserCallback):
            """Ends the run at bad input, which would fail again, instead of restarting the workers."""

            def after_exception(self, run_context: Any, worker_exceptions: dict[int, Exception]) -> None:
                for error in map(bad_input, worker_exceptions.values()):
                    if isinstance(error, BadInput):
                        raise error

        refusal: Any = Refusal()
        os.environ["RAY_CHDIR_TO_TRIAL_DIR"] = "0"  # relative paths of the configuration stay valid
        # The first worker ends by itself if its node will be taken away (`training.workers`). Ray Train would wait for
        # the others, and they for it, until the node is gone.
        os.environ["RAY_TRAIN_ENABLE_PREEMPTION_WATCHER"] = "0"
        with tempfile.TemporaryDirectory() as folder:  # Ray Train needs one; states are saved elsewhere
            trainer = ray.train.torch.TorchTrainer(
                work,
                # nccl can't join two workers on one GPU.
                torch_config=ray.train.torch.TorchConfig(
                    backend="nccl" if resources["gpu"] >= 1 else "gloo", timeout_s=WORKER_TIMEOUT_S
                ),
                scaling_config=_scaling(resources),
                run_config=ray.train.RunConfig(
                    name=f"pyrite-{uuid.uuid4().hex[:8]}",
                    storage_path=folder,
                    failure_config=ray.train.FailureConfig(max_failures=WORKER_RESTARTS),
                    callbacks=[refusal],
                ),
            )
            try:
                trainer.fit()
            except ray.train.ControllerError as error:
                if isinstance(error.controller_failure, BadInput):
                    raise error.controller_failure from None
                raise
        assert self._outcome is not None
        return self._outcome

    def report(self, report: Any) -> None:
        """Add progress of the run, or a line for the user."""
        self._reports.append(report)

    def drain(self) -> list[Any]:
        """Return the reports since the last call."""
        reports, self._reports = self._reports, []
        return reports

    def add_placement_group(self, group: Any) -> None:
        """Add a placement group of the workers."""
        self._placement_groups.append(group)

    def placement_groups(self) -> list[Any]:
        """Return all placement groups that the workers have had."""
        return self._placement_groups

    def finish(self, outcome: bytes) -> None:
        """Store the outcome of the run."""
        self._outcome = outcome

    def load(self) -> bytes | None:
        return self._state

    def save(self, state: bytes) -> None:
        self._state = state


def _scaling(resources: dict[str, Any]) -> Any:

    most, least = resources["workers"], resources["least"] or resources["workers"]
    number: Any = most if least >= most else (least, most)
    return ray.train.ScalingConfig(
        num_workers=number,
        use_gpu=resources["gpu"] > 0,
        resources_per_worker=Resources.of(resources).bundle(),
        placement_strategy=resources["placement"].upper(),
    )
