"""Executes a run in an output folder: keeps its state while it runs, and its result."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from cluster.config.compose import digest
from cluster.output.storage import Storage
from cluster.plan.sweep import Planned
from cluster.runs.execute import Progress, run
from cluster.runs.outcome import Outcome, read_outcome, unpacked, write_outcome
from cluster.telemetry.training_metrics import run_tags


class RunState:
    """Keeps a run's state between interrupts.

    Args:
        storage: the folder.
        name: of the run.
        keys: of the run's parts; a state is good for the very parts that it was made from.
    """

    def __init__(self, storage: Storage, name: str, keys: dict[str, str]) -> None:
        self.storage, self.file = storage, f"states/{name}-{digest(keys)[:6]}.safetensors"

    def load(self) -> bytes | None:
        """The last state; None at the start, and where a power cut has left half of one."""
        state = self.storage.read(self.file)
        return None if unpacked(state) is None else state

    def save(self, state: bytes) -> None:
        """Keep the state whole."""
        self.storage.write(self.file, state)


def execute_run(
    name: str,
    config: dict[str, Any],
    keys: dict[str, str],
    parts: dict[str, Any],
    storage: Storage,
    on_epoch: Callable[[Progress], None],
    save_every: float | None = None,
    note: Callable[[str], None] = lambda line: None,
) -> Outcome:
    """One run, from its last state to its result in the folder.

    Args:
        name: of the run.
        config: composed.
        keys, parts: by the parts' names (`cluster.runs.artifacts`).
        storage: the folder.
        on_epoch: told the progress.
        save_every: seconds between two states that are kept; None: as configured.
        note: told what the run starts on the cluster, and loses.
    """
    state = RunState(storage, name, keys)
    watch = run_tags(storage.place, config)
    pause = config["save_every"] if save_every is None else save_every
    outcome = runner(config)(config, parts, on_epoch, state, pause, name=name, note=note, watch=watch)
    weights, outcome.weights = outcome.weights, None
    if weights is not None:
        _write_weights(storage, name, weights)
    write_outcome(storage, name, outcome)
    storage.delete(state.file)
    return outcome


def _write_weights(storage: Storage, name: str, weights: dict[str, Any]) -> None:
    """One safetensors file, or a folder with the files of a checkpoint."""
    if any(isinstance(content, bytes) for content in weights.values()):
        for file, content in weights.items():
            storage.write(f"weights/{name}/{file}", content)
        return
    from safetensors.torch import save

    storage.write(f"weights/{name}.safetensors", save(weights))


def runner(config: dict[str, Any]) -> Callable[..., Outcome]:
    """What conducts a run: `cluster.runs.execute.run` in this process, or the same by workers of its own."""
    if config["resources"]["workers"] == 1:
        return run
    from cluster.training.workers import run_on_workers

    return run_on_workers


def finished(storage: Storage, runs: Iterable[Planned]) -> set[str]:
    """Names of the runs whose results are there, and whole."""
    there = set(storage.names("runs"))
    names = [planned.name for planned in runs if f"{planned.name}.safetensors" in there]
    return {name for name in names if read_outcome(storage, name) is not None}
