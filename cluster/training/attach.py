"""Joins one worker's training to those of the other workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cluster.training.all_reduce import AllReduce
from cluster.training.index import SharedIndex
from cluster.training.validation import SharedEvaluation
from ranking.errors import BadInput
from ranking.rankers.pretrained import Pretrained
from ranking.training import RankerTraining
from sampling.retrieval.dense import Dense
from sampling.sampler import Sampler


def attach_workers(config: dict[str, Any]) -> Callable[[RankerTraining, Sampler], None]:
    """Make the function that joins this process's training to those of the other workers of its process group.

    Args:
        config: of the run.
    """

    def join(training: RankerTraining, sampler: Sampler) -> None:
        if config["resources"]["shard"]:
            # Validation is not shared: sharded weights are read by all workers or by none.
            training.gradient_sync = _sharded(training)
        else:
            training.gradient_sync = AllReduce()
            training.validation = SharedEvaluation(training.validation)
        for function in sampler.functions.values():
            if isinstance(function, Dense) and function._served is not None:
                function.attach_index(SharedIndex(function._served))

    return join


def _sharded(training: RankerTraining) -> AllReduce:
    from cluster.training.sharding import Sharded

    if not any(isinstance(module, Pretrained) for module in training.ranker.modules()):
        raise BadInput(
            f"{type(training.ranker).__name__} can't be sharded: compiled loops read its weights where they lie",
            "resources.shard",
            "choose a transformer, e.g. ranker=cross_encoder, or leave it false",
        )
    return Sharded(training)
