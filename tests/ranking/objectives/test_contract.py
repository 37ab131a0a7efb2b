"""What every objective promises, whichever there are: found by walking the package."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import pyrite.ranking.objectives
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.objectives.block import Block
from pyrite.ranking.objectives.distillation import Distillation
from pyrite.ranking.objectives.matryoshka import Matryoshka
from pyrite.ranking.objectives.objective import Objective
from pyrite.ranking.objectives.softmax import Softmax
from pyrite.ranking.objectives.weighted_sum import WeightedSum
from pyrite.ranking.pair_scores import PairScores
from tests.classes import classes_in

EVERY = sorted(classes_in(pyrite.ranking.objectives, Objective), key=lambda kind: kind.__name__)
QUERIES = np.array([0, 2, 4])
DOCUMENTS = np.array([[0, 5, 6, -1], [9, 1, 2, 3], [4, -1, -1, -1]], np.int32)


def test_there_are_objectives():
    assert {"Softmax", "BlockLoss", "Hinge"} <= {kind.__name__ for kind in EVERY}


def block_of(encoded: EncodedCollection, device: str = "cpu") -> Block:
    return Block.of(encoded, QUERIES, DOCUMENTS, np.full((3, 3), 0.5, np.float32), device, teacher(encoded))


def teacher(encoded: EncodedCollection) -> PairScores:
    """Likes the positives best."""
    rows = np.repeat(QUERIES, 4)
    return PairScores.of(rows, DOCUMENTS.ravel(), np.tile([2.0, 0, -0.5, -1], 3), len(encoded.documents))


def made(kind: type[Objective]) -> Objective:
    if kind is Matryoshka:
        return Matryoshka(Softmax())
    return WeightedSum(softmax=Softmax(), kl=Distillation()) if kind is WeightedSum else kind()


@pytest.mark.by_day(6)
@pytest.mark.parametrize("kind", EVERY)
def test_loss_and_gradient_are_finite_and_leave_absent_documents_alone(kind, tiny_encoded):
    scores = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    block = block_of(tiny_encoded)
    loss = made(kind).loss(scores, block)
    assert loss.shape == ()
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(scores.grad).all()
    assert not scores.grad[~block.present].any()
    assert scores.grad[block.present].any()


@pytest.mark.parametrize("kind", EVERY)
def test_a_better_order_costs_less(kind, tiny_encoded):
    right, wrong = torch.tensor([[2.0, 0, 0, 0]] * 3), torch.tensor([[0, 2.0, 2, 2]] * 3)
    block = block_of(tiny_encoded)
    assert made(kind).loss(right, block) < made(kind).loss(wrong, block)


def scorer(scores: torch.Tensor) -> Callable[..., torch.Tensor]:
    """Passes that give these scores."""

    def score(columns: Any = None, dimensions: Any = None) -> torch.Tensor:
        some = scores if columns is None else scores.gather(1, columns)
        return some if dimensions is None else some[None]

    return score


@pytest.mark.by_day(6)
@pytest.mark.parametrize("kind", EVERY)
def test_the_entry_point_of_passes_gives_the_loss(kind, tiny_encoded):
    scores = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
    block = block_of(tiny_encoded)
    loss, first = made(kind).of_passes(scorer(scores), block, torch.Generator().manual_seed(0))
    torch.testing.assert_close(loss, made(kind).loss(scores, block))
    assert torch.equal(first, scores)


@pytest.mark.by_day(6)
@pytest.mark.parametrize("kind", EVERY)
def test_no_rows_give_a_weight_a_gradient_of_zero(kind, tiny_encoded):
    """Which a worker without rows needs, where all workers make the same passes."""
    weight = torch.ones(4, requires_grad=True)
    nothing = np.zeros((0, 4), np.int32)
    block = Block.of(
        tiny_encoded, np.zeros(0, np.int64), nothing, np.zeros((0, 3), np.float32), "cpu", teacher(tiny_encoded)
    )
    loss, first = made(kind).of_passes(scorer(torch.zeros(0, 4) * weight), block, torch.Generator().manual_seed(0))
    (loss * 0).backward()
    assert first.shape == (0, 4)
    assert weight.grad.tolist() == [0, 0, 0, 0]


@pytest.mark.by_day(6)
@pytest.mark.parametrize("kind", EVERY)
def test_probabilities_are_probabilities(kind, tiny_encoded):
    found = made(kind).probabilities(torch.randn(3, 4), block_of(tiny_encoded).present)
    assert found.shape == (3, 4)
    assert ((found >= 0) & (found <= 1)).all()


def test_a_block_knows_gains_and_source_scores(tiny_encoded):
    block = block_of(tiny_encoded)
    grades = tiny_encoded.judgements.lookup(QUERIES, DOCUMENTS)
    assert block.gains.tolist() == grades.tolist()
    assert grades.any()
    assert block.source_scores[:, 0].isnan().all()
    assert (block.source_scores[:, 1:] == 0.5).all()
    assert block.documents.tolist() == DOCUMENTS.tolist()


@pytest.mark.gpu
@pytest.mark.parametrize("kind", EVERY)
def test_loss_and_gradient_on_a_gpu_are_a_cpus(kind, tiny_encoded, cuda):
    found = []
    for device in ("cpu", cuda):
        scores = torch.randn(3, 4, generator=torch.Generator().manual_seed(0)).to(device).requires_grad_()
        loss = made(kind).loss(scores, block_of(tiny_encoded, device))
        loss.backward()
        assert scores.grad.device.type == device
        found.append((loss.detach().cpu(), scores.grad.cpu()))
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)
