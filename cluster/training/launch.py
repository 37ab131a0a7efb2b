"""Runs a run where its configuration says: in this process, or on workers of Ray Train."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from cluster.index.attach import attach_indexes
from cluster.runs.execute import Leave, run, stay
from cluster.runs.outcome import Outcome
from cluster.runs.progress import Progress
from cluster.runs.states import StateStore
from ranking.training import RankerTraining
from sampling.sampler import Sampler


def launch(
    config: dict[str, Any],
    parts: dict[str, Any],
    on_epoch: Callable[[Progress], None] = lambda progress: None,
    store: StateStore | None = None,
    save_every: float = 30.0,
    name: str = "run",
    note: Callable[[str], None] = lambda line: None,
    watch: Mapping[str, str] | None = None,
    on_batch: Callable[[Progress], None] = lambda progress: None,
    leave: Leave = stay,
) -> Outcome:
    """Execute a run with all that it asks of a cluster: index actors, and workers with `resources.workers` above 1.

    Args:
        config, parts, on_epoch, store, save_every, watch, on_batch: of `cluster.runs.execute.run`.
        leave: likewise, of a run in this process; workers leave their machines whoever asks.
        name: of the run, for what it starts on the cluster.
        note: told what it starts there, and loses.
    """
    if config["resources"]["workers"] > 1:
        from cluster.training.workers import run_on_workers

        return run_on_workers(config, parts, on_epoch, store, save_every, name, note, watch, on_batch)

    def attach(training: RankerTraining, sampler: Sampler) -> AbstractContextManager[object]:
        return attach_indexes(sampler.functions, training, config, name, note)

    return run(config, parts, on_epoch, store, save_every, attach, watch, on_batch, leave)
