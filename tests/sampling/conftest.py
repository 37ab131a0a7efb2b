"""Trainings for policies and selectors that learn from one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch

from ranking.evaluation.evaluation import Evaluation
from ranking.evaluation.origins import RandomCandidates
from ranking.objectives.softmax import SoftmaxLikelihood
from ranking.rankers.feed_forward import FeedForward
from ranking.sources import Sources
from ranking.training import RankerTraining


@pytest.fixture
def tiny_training(tiny_sources: Sources) -> Callable[..., RankerTraining]:
    """Makes the training of a tiny f_FF on `tiny`: five examples, three batches an epoch."""
    evaluation = Evaluation(
        tiny_sources.encoded, RandomCandidates(8).candidates(tiny_sources, np.array([4, 5])), ["AP@8"]
    )

    def make(seed: int = 0) -> RankerTraining:
        return RankerTraining(
            FeedForward(
                tiny_sources.vectors.filled(np.random.default_rng(seed)),
                torch.Generator().manual_seed(seed),
                preset="tiny",
            ),
            SoftmaxLikelihood(),
            tiny_sources.encoded,
            np.arange(4),
            evaluation,
            partial(torch.optim.Adam, lr=0.01),
            np.random.default_rng(seed),
            batch_size=2,
            max_epochs=4,
            patience=4,
        )

    return make
