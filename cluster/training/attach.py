"""Joins one worker's training to those of the other workers."""

from __future__ import annotations

from cluster.training.all_reduce import AllReduce
from cluster.training.index import SharedIndex
from cluster.training.validation import SharedEvaluation
from ranking.training import RankerTraining
from sampling.retrieval.dense import Dense
from sampling.sampler import Sampler


def attach_workers(training: RankerTraining, sampler: Sampler) -> None:
    """Join this process's training to those of the other workers of its process group."""
    training.gradient_sync = AllReduce()
    training.evaluations = {origin: SharedEvaluation(evaluation) for origin, evaluation in training.evaluations.items()}
    for function in sampler.functions.values():
        if isinstance(function, Dense) and function._served is not None:
            function.attach_index(SharedIndex(function._served))
