from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from ranking.errors import BadInput
from ranking.rankers.dense import DenseRanker
from ranking.training import Batch
from sampling.selection.tri_sampler import TriSampler
from tests.sampling.batches import listed

VECTORS = np.array([[1, 0], [1, 0], [0.5, 0.75**0.5], [0.5, -(0.75**0.5)]], np.float32)
"""The positive, its twin, and two documents that score the same with the query, one near and one far from both."""


class Flat(DenseRanker):
    """Documents in a plane."""

    dimension = 2

    def represent_queries(self, queries: Any) -> torch.Tensor:
        raise NotImplementedError

    def represent_documents(self, documents: Any) -> torch.Tensor:
        return torch.from_numpy(VECTORS[documents])

    def layers(self) -> list[Any]:
        return []


def test_it_prefers_equal_sides():
    """The query is 60° from the positive. 1 is the positive's twin, 2 the query itself, and 3 is opposite."""
    query = np.array([0.5, 0.75**0.5], np.float32)
    training = SimpleNamespace(
        ranker=Flat(),
        encoded=SimpleNamespace(documents=SimpleNamespace(take=lambda rows: rows)),
        score=lambda queries, documents: (VECTORS[documents] @ query).astype(np.float32),
    )
    function = listed([[1, 2, 3]])
    batch = Batch(np.zeros(9000, np.int64), np.zeros(9000, np.int32))
    picked = TriSampler(4.0, 3).select(batch, function, 1, training, np.random.default_rng(0)).documents
    # The side is ½. Sides to query and positive: 1 has ½ and 1; 2 has 1 and ½; 3 has −½ and ½.
    weights = np.exp(-4.0 * np.array([0.25, 0.25, 1.0]))
    counts = [np.count_nonzero(picked == document) for document in (1, 2, 3)]
    assert counts == pytest.approx(9000 * weights / weights.sum(), abs=100)


def test_it_needs_a_vector_per_text():
    with pytest.raises(BadInput, match="no vector per document"):
        TriSampler().start_run({}, SimpleNamespace(ranker=object()))
