"""Joins one worker's training to those of the other workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from cluster.index.attach import attach_indexes
from cluster.runs.execute import Attach
from cluster.training.all_reduce import AllReduce, ReduceScatter
from cluster.training.index import SharedIndex
from cluster.training.validation import SharedEvaluation
from ranking.training import RankerTraining
from sampling.retrieval.dense import Dense
from sampling.sampler import Sampler


def attached(config: dict[str, Any], name: str, note: Callable[[str], None] = lambda line: None) -> Attach:
    """Make the function that attaches a run's training to its index actors and to the other workers.

    Args:
        config: of the run.
        name: of the run.
        note: told what an index takes, and when one is lost and back.
    """

    @contextmanager
    def attach(training: RankerTraining, sampler: Sampler) -> Iterator[None]:
        with attach_indexes(sampler.functions, training, config, name, note):
            attach_workers(training, sampler)
            yield

    return attach


def attach_workers(training: RankerTraining, sampler: Sampler) -> None:
    """Join this process's training to those of the other workers of its process group."""
    training.gradient_sync = AllReduce() if training.ranker.sharding is None else ReduceScatter()
    training.evaluations = {origin: SharedEvaluation(each) for origin, each in training.evaluations.items()}
    for function in sampler.functions.values():
        if isinstance(function, Dense) and function._served is not None:
            function.attach_index(SharedIndex(function._served))
