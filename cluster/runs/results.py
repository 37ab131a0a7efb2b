"""Executes a run in an output folder: saves its state while it runs, and its result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from cluster.output.result_store import ResultStore
from cluster.output.storage import Storage
from cluster.plan.sweep import Planned
from cluster.runs.outcome import FOLDER, Outcome, write_outcome
from cluster.runs.run_limits import LimitReached, run_limits
from cluster.telemetry.training_metrics import run_tags

if TYPE_CHECKING:
    from cluster.runs.execute import OnProgress


def run_store(
    storage: Storage, runs: Iterable[Planned], built_from: Callable[[dict[str, Any]], Mapping[str, str]]
) -> ResultStore:
    """Return the store of the results of runs.

    Args:
        built_from: returns what a run of a configuration is built from (`Artifacts.provenance`).
    """
    configs = {planned.name: planned.config for planned in runs}
    return ResultStore(storage, FOLDER, lambda name: built_from(configs[name]))


def execute_run(
    name: str,
    config: dict[str, Any],
    made_of: Mapping[str, str],
    parts: dict[str, Any],
    storage: Storage,
    on_progress: OnProgress,
    start: Callable[..., Outcome],
) -> Outcome:
    """Execute a run from its last state to its result in the folder.

    Args:
        made_of: what it is built from (`Artifacts.provenance`); written into the result.
        start: executes the run: `cluster.runs.execute.run`, or what `cluster.training.study_runs.launcher` returns.

    Returns:
        The outcome, without the weights, which are written separately.

    Raises:
        LimitReached: if the run takes more than `run_time` or `run_memory`. Its state is kept.
    """
    state = ResultStore(storage, FOLDER, made_of).state(name)
    limit = state.hung()
    if limit:  # in an attempt whose process had to be ended
        raise LimitReached.of(limit, config[limit] or "its limit")
    watch = run_tags(storage.place, config)
    with run_limits(config["run_time"], config["run_memory"], state.mark_hung):
        outcome = start(config, parts, on_progress, state, config["save_every"], watch=watch)
    weights, outcome.weights, outcome.made_of = outcome.weights, None, dict(made_of)
    if weights is not None:
        from safetensors.torch import save

        from cluster.runs.trained import weights_description

        if any(isinstance(content, bytes) for content in weights.values()):  # the files of a checkpoint
            for file, content in weights.items():
                storage.write(f"weights/{name}/{file}", content)
        else:
            storage.write(f"weights/{name}.safetensors", save(weights))
        storage.write(f"weights/{name}.json", weights_description(config, parts))
    write_outcome(storage, name, outcome)
    state.delete()
    return outcome
