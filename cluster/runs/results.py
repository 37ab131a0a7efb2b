"""Executes a run in an output folder: keeps its state while it runs, and its result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from cluster.output.provenance import content_digest, differences
from cluster.output.storage import Storage
from cluster.plan.sweep import Planned
from cluster.runs.outcome import Outcome, read_outcome, unpacked, write_outcome
from cluster.telemetry.training_metrics import run_tags

if TYPE_CHECKING:
    from cluster.runs.progress import Progress


class RunState:
    """Keeps a run's state between interrupts.

    Args:
        storage: the folder.
        name: of the run.
        made_of: `Artifacts.provenance`; a state is good for the very parts and code that it was made from.
    """

    def __init__(self, storage: Storage, name: str, made_of: Mapping[str, str]) -> None:
        self.storage, self.file = storage, f"states/{name}-{content_digest(made_of)}.safetensors"

    def take(self, other: RunState) -> None:
        """Go on from what another run of the same folder has come to, where that is kept."""
        if (state := other.load()) is not None:
            self.save(state)

    def load(self) -> bytes | None:
        """The last state; None at the start, and where a power cut has left half of one."""
        state = self.storage.read(self.file)
        return None if unpacked(state) is None else state

    def save(self, state: bytes) -> None:
        """Keep the state whole."""
        self.storage.write(self.file, state)

    def load_shard(self, name: str) -> bytes | None:
        """What a worker kept of a state under a name; None where nothing is."""
        return self.storage.read(self._shard(name))

    def save_shard(self, name: str, rows: bytes) -> None:
        """Keep what is one worker's of a state."""
        self.storage.write(self._shard(name), rows)

    def drop_shards(self, but: Collection[str] = ()) -> None:
        """Delete what workers kept, but for some names."""
        first, kept = self._shard("").removesuffix(".safetensors"), {self._shard(name) for name in but}
        for file in self.storage.names("states"):
            if f"states/{file}".startswith(first) and f"states/{file}" not in kept:
                self.storage.delete(f"states/{file}")

    def delete(self) -> None:
        """Forget the state."""
        if self.file.rpartition("/")[2] in self.storage.names("states"):
            self.storage.delete(self.file)
        self.drop_shards()

    def _shard(self, name: str) -> str:
        return f"{self.file.removesuffix('.safetensors')}-shard-{name}.safetensors"

    def keep_at(self, step: int, state: bytes) -> None:
        """Keep what training and sampler were before a batch."""
        self.storage.write(self._file_at(step), state)

    def kept_at(self, step: int) -> bytes | None:
        """What `keep_at` kept; None where it did not, or where that is damaged."""
        state = self.storage.read(self._file_at(step))
        return None if unpacked(state) is None else state

    def _file_at(self, step: int) -> str:
        return f"{self.file.removesuffix('.safetensors')}-at-{step}.safetensors"


def forget_state(storage: Storage, name: str, made_of: Mapping[str, str]) -> None:
    """Delete the state of a run that will not go on."""
    RunState(storage, name, made_of).delete()


def execute_run(
    name: str,
    config: dict[str, Any],
    made_of: Mapping[str, str],
    parts: dict[str, Any],
    storage: Storage,
    on_epoch: Callable[[Progress], None],
    save_every: float | None = None,
    start: Callable[..., Outcome] | None = None,
) -> Outcome:
    """One run, from its last state to its result in the folder.

    Args:
        name: of the run.
        config: composed.
        made_of: `Artifacts.provenance`, which the result keeps.
        parts: by name.
        storage: the folder.
        on_epoch: told the progress.
        save_every: seconds between two states that are kept; None: as configured.
        start: executes the run; None: `cluster.runs.execute.run`, in this process.
    """
    state = RunState(storage, name, made_of)
    watch = run_tags(storage.place, config)
    pause = config["save_every"] if save_every is None else save_every
    if start is None:
        from cluster.runs.execute import run

        start = run
    outcome = start(config, parts, on_epoch, state, pause, watch=watch)
    weights, outcome.weights, outcome.made_of = outcome.weights, None, dict(made_of)
    if weights is not None:
        from cluster.runs.trained import described

        _write_weights(storage, name, weights)
        storage.write(f"weights/{name}.json", described(config, parts))
    write_outcome(storage, name, outcome)
    state.delete()
    return outcome


def _write_weights(storage: Storage, name: str, weights: dict[str, Any]) -> None:
    """One safetensors file, or a folder with the files of a checkpoint."""
    if any(isinstance(content, bytes) for content in weights.values()):
        for file, content in weights.items():
            storage.write(f"weights/{name}/{file}", content)
        return
    from safetensors.torch import save

    storage.write(f"weights/{name}.safetensors", save(weights))


def finished(
    storage: Storage, runs: Iterable[Planned], made_of: Callable[[dict[str, Any]], Mapping[str, str]]
) -> tuple[set[str], Counter[str]]:
    """Which runs have their results, whole and made of what they would be made of now.

    Args:
        storage: the folder.
        runs: to look for.
        made_of: `Artifacts.provenance`.

    Returns:
        Their names; and how many other results differ in what.
    """
    there = set(storage.names("runs"))
    found, different = set(), Counter[str]()
    for planned in runs:
        outcome = read_outcome(storage, planned.name) if f"{planned.name}.safetensors" in there else None
        if outcome is None:
            continue
        differing = differences(outcome.made_of, made_of(planned.config))
        if differing:
            different[", ".join(differing)] += 1
        else:
            found.add(planned.name)
    return found, different
