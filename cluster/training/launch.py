"""Chooses where a run is executed: in this process, or on workers of Ray Train if it requests several."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from cluster.index.attach import attach_indexes
from cluster.runs.execute import Leave, run, stay
from cluster.runs.outcome import Outcome
from cluster.runs.progress import Progress
from ranking.training import RankerTraining
from sampling.sampler import Sampler


def launcher(
    config: dict[str, Any],
    name: str = "run",
    note: Callable[[str], None] = lambda line: None,
    on_batch: Callable[[Progress], None] = lambda progress: None,
    leave: Leave = stay,
) -> Callable[..., Outcome]:
    """Return what executes a run: `cluster.runs.execute.run`, with the index actors and workers that the run needs.

    Args:
        config: the run's configuration.
        name: name of the run, for the names of its actors.
        note: called with lines about actors that start or are lost.
        on_batch: see `cluster.runs.execute.run`.
        leave: see `cluster.runs.execute.run`. Workers always leave nodes that will be taken away.
    """
    if config["resources"]["workers"] > 1:
        from cluster.training.workers import run_on_workers

        return partial(run_on_workers, name=name, note=note, on_batch=on_batch)

    def attach(training: RankerTraining, sampler: Sampler) -> AbstractContextManager[object]:
        return attach_indexes(sampler.functions, training, config, name, note)

    return partial(run, attach=attach, on_batch=on_batch, leave=leave)
