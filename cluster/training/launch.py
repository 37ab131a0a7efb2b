"""Executes a run in this process, or on workers of Ray Train if its configuration requests several."""

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
    """Execute a run with the index actors and workers that it needs.

    Args:
        config, parts, on_epoch, store, save_every, watch, on_batch: see `cluster.runs.execute.run`.
        leave: see `cluster.runs.execute.run`. Workers always leave nodes that will be taken away.
        name: name of the run, for the names of its actors.
        note: called with lines about actors that start or are lost.
    """
    if config["resources"]["workers"] > 1:
        from cluster.training.workers import run_on_workers

        return run_on_workers(config, parts, on_epoch, store, save_every, name, note, watch, on_batch)

    def attach(training: RankerTraining, sampler: Sampler) -> AbstractContextManager[object]:
        return attach_indexes(sampler.functions, training, config, name, note)

    return run(config, parts, on_epoch, store, save_every, attach, watch, on_batch, leave)
