"""Gradients by rows, and an Adam that steps those alone."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from ranking.checkpoint import from_bytes, to_bytes
from ranking.encoding import EncodedCollection
from ranking.lazy_adam import LazyAdam
from ranking.rankers.dssm import Dssm
from ranking.rankers.feed_forward import FeedForward
from ranking.rankers.ranker import Ranker
from ranking.rankers.static import Static
from ranking.sources import Sources
from ranking.training import RankerTraining
from tests.ranking.trained import NEGATIVES, equal, generator, in_training, weights

LAZY = partial(LazyAdam, lr=0.05)
Made = Callable[[], tuple[Ranker, EncodedCollection]]


@pytest.fixture(params=["dssm", "static", "feed_forward"])
def made(request, tiny_sources, read_as) -> Made:
    def make() -> tuple[Ranker, EncodedCollection]:
        if request.param == "dssm":
            return Dssm(generator(), preset="tiny", tied=False), read_as(Dssm.tokenization())
        vectors = tiny_sources.vectors.filled(np.random.default_rng(0))
        kind: Any = {"static": Static, "feed_forward": FeedForward}[request.param]
        return kind(vectors, generator(), preset="tiny"), tiny_sources.encoded

    return make


def started(made: Made, sources: Sources, factory: Any, **options: Any) -> RankerTraining:
    from ranking.optimization import Optimization

    ranker, encoded = made()
    training = in_training(ranker, encoded, sources, **options)
    training.optimization = Optimization(ranker, factory, None, 9)
    return training


def updated(training: RankerTraining) -> Any:
    training.position = 0
    return training.update(training.next_batch(), NEGATIVES)


@pytest.mark.by_day(3)
@pytest.mark.parametrize("options", [{}, {"chunk": 2}, {"accumulate": 2}])
def test_the_gradient_by_rows_is_the_gradient(made, tiny_sources, options):
    whole = started(made, tiny_sources, partial(torch.optim.Adam, lr=0.05), **options)
    rows = started(made, tiny_sources, LAZY, **options)
    wanted, found = updated(whole), updated(rows)
    assert found.loss == wanted.loss
    assert found.gradient_norm == pytest.approx(wanted.gradient_norm, rel=1e-5)
    sparse = 0
    for one, other in zip(whole.ranker.parameters(), rows.ranker.parameters(), strict=True):
        sparse += other.grad.is_sparse
        torch.testing.assert_close(other.grad.to_dense(), one.grad, rtol=1e-5, atol=1e-7)
    assert sparse == len(rows.ranker.row_parameters()) > 0


def test_rows_that_are_not_read_stay(made, tiny_sources):
    training = started(made, tiny_sources, LAZY)
    before = [table.detach().clone() for table in training.ranker.row_parameters()]
    losses = [updated(training).loss for _ in range(8)]
    assert losses[-1] < losses[0]
    for old, new in zip(before, training.ranker.row_parameters(), strict=True):
        read = torch.zeros(len(old), dtype=torch.bool)
        read[new.grad.coalesce().indices()[0]] = True
        assert torch.equal(old[~read], new[~read])
        assert not torch.isclose(old[read], new[read]).all()


def test_it_goes_on_from_a_state(made, tiny_sources):
    one, other = (started(made, tiny_sources, LAZY) for _ in range(2))
    for _ in range(3):
        updated(one)
    other.load_state_dict(from_bytes(to_bytes(one.state_dict())))
    for _ in range(2):
        assert updated(one).loss == updated(other).loss
    assert equal(weights(one.ranker), weights(other.ranker))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_steps_are_those_of_torchs_sparse_adam_and_of_adam(dtype):
    """The compiled loop for float32, torch's operations for others."""
    rng = torch.Generator().manual_seed(0)
    tables = [nn.Parameter(torch.randn(7, 3, generator=rng, dtype=dtype))]
    tables.append(nn.Parameter(tables[0].detach().clone()))
    others = [nn.Parameter(torch.randn(4, generator=rng, dtype=dtype))]
    others.append(nn.Parameter(others[0].detach().clone()))
    lazy = LazyAdam([tables[0], others[0]], lr=0.1, betas=(0.8, 0.95), eps=1e-12)
    sparse = torch.optim.SparseAdam([tables[1]], lr=0.1, betas=(0.8, 0.95), eps=1e-12)
    dense = torch.optim.Adam([others[1]], lr=0.1, betas=(0.8, 0.95), eps=1e-12)
    for rows in ([0, 3, 6], [3, 4], [0, 0, 5], [1]):
        values = torch.randn(len(rows), 3, generator=rng, dtype=dtype)
        gradient = torch.randn(4, generator=rng, dtype=dtype)
        for table, other in zip(tables, others, strict=True):
            table.grad = torch.sparse_coo_tensor(
                torch.tensor([rows]), values, (7, 3), check_invariants=True
            )  # 0 twice: its sum counts
            other.grad = gradient.clone()
        for optimizer in (lazy, sparse, dense):
            optimizer.step()
    torch.testing.assert_close(tables[0], tables[1], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(others[0], others[1], rtol=1e-5, atol=1e-6)
    assert torch.equal(tables[0][2], tables[1][2])
