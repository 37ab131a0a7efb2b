"""Measures a ranker as its checkpoint has it, before a run trains it."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pyrite.cluster.runs.assemble import make_ranker
from pyrite.cluster.runs.parts import Base, read_encoded
from pyrite.ranking.evaluation.evaluation import Evaluation
from pyrite.ranking.evaluation.origins import Candidates
from pyrite.ranking.rankers.ranker import new_weights
from pyrite.ranking.threads import threads

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BeforeTraining:
    """The values of a ranker before its training, over the candidates of one origin.

    Args:
        queries: int64 [q], the queries, ascending.
        values: float64 [q] by measure; empty if the checkpoint lacks weights, so that scores would be random.
    """

    queries: NDArray[np.int64]
    values: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    def of(self, queries: NDArray[np.integer]) -> dict[str, NDArray[np.float64]]:
        """Return the values of some of the queries, which must be included."""
        rows = np.searchsorted(self.queries, queries)
        return {name: values[rows] for name, values in self.values.items()}


def measured_origins(config: dict[str, Any]) -> list[str]:
    """Return the origins over whose candidates a run's checkpoint is measured; none if it starts from nothing.

    Rankers that train while an agent learns are not measured.
    """
    starts_from = config["ranker"].get("checkpoint")
    return [*config["origin"]] if starts_from and "state" not in config else []


def measure_before(config: dict[str, Any], parts: dict[str, Any], candidates: Candidates) -> BeforeTraining:
    """Measure the configured ranker without training it, on the device and with the threads of a run."""
    base: Base = parts["base"]
    with threads(config["resources"]["cpu"]):
        ranker = make_ranker(config | {"peft": None}, base, np.random.default_rng(0)).eval()
        if ranker.drawn:
            _log.warning("no row before training: its checkpoint has no %s", new_weights(ranker))
            return BeforeTraining(candidates.queries)
        gpu = config["resources"]["gpu"] and torch.cuda.is_available()
        evaluation = Evaluation(read_encoded(parts), candidates, config["measures"])
        return BeforeTraining(candidates.queries, evaluation(ranker.to("cuda" if gpu else "cpu")))
