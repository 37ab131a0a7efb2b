import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from ranking.objectives.block import Block
from ranking.objectives.contrastive import Contrastive
from ranking.objectives.objective import Objective
from ranking.objectives.pairwise import PairwiseHinge, RankNet
from ranking.objectives.pointwise import PointwiseCrossEntropy
from ranking.objectives.self_involvement import JointSIR
from ranking.objectives.softmax import SoftmaxLikelihood

ALL: list[Objective] = [SoftmaxLikelihood(), PairwiseHinge(), PairwiseHinge(0.3), RankNet(), PointwiseCrossEntropy()]
WITHOUT_NEGATIVES = [*ALL, Contrastive(), JointSIR([2])]
SCORES = torch.tensor([[1.0, 0.5, 2.0], [0.0, -1.0, 7.0]], dtype=torch.float64)
PRESENT = torch.tensor([[True, True, True], [True, True, False]])


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def test_softmax_by_hand():
    first = -math.log(math.e / (math.e + math.exp(0.5) + math.exp(2)))
    second = -math.log(1 / (1 + math.exp(-1)))
    assert float(SoftmaxLikelihood().loss(SCORES, Block(PRESENT))) == pytest.approx((first + second) / 2, rel=1e-12)


def test_hinge_by_hand():
    # Differences 0.5, −1 and 1 of the three pairs that are there: costs 0.5, 2 and 0.
    assert float(PairwiseHinge().loss(SCORES, Block(PRESENT))) == pytest.approx(2.5 / 3, rel=1e-12)
    assert float(PairwiseHinge(2).loss(SCORES, Block(PRESENT))) == pytest.approx((1.5 + 3 + 1) / 3, rel=1e-12)


def test_ranknet_by_hand():
    expected = sum(math.log(1 + math.exp(-difference)) for difference in (0.5, -1, 1)) / 3
    assert float(RankNet().loss(SCORES, Block(PRESENT))) == pytest.approx(expected, rel=1e-12)


def test_pointwise_by_hand():
    positives = -(math.log(sigmoid(1)) + math.log(sigmoid(0))) / 2
    negatives = -sum(math.log(1 - sigmoid(score)) for score in (0.5, 2, -1)) / 3
    assert float(PointwiseCrossEntropy().loss(SCORES, Block(PRESENT))) == pytest.approx(
        (positives + negatives) / 2, rel=1e-12
    )


def test_probabilities_by_hand():
    softmax = SoftmaxLikelihood().probabilities(SCORES, PRESENT)
    assert float(softmax[0, 2]) == pytest.approx(math.exp(2) / (math.e + math.exp(0.5) + math.exp(2)))
    assert softmax.sum(dim=1).tolist() == pytest.approx([1, 1])
    assert float(softmax[1, 2]) == 0
    for pairwise in (PairwiseHinge(), RankNet()):
        row = pairwise.probabilities(SCORES, PRESENT)[0].tolist()
        assert row == pytest.approx([0.5, sigmoid(-0.5), sigmoid(1)])
    assert PointwiseCrossEntropy().probabilities(SCORES, PRESENT)[0].tolist() == pytest.approx(
        [sigmoid(1), sigmoid(0.5), sigmoid(2)]
    )


def gradient(objective: Objective, scores: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
    scores = scores.clone().requires_grad_()
    loss = objective.loss(scores, Block(present))
    loss.backward()
    return loss.detach(), scores.grad


@pytest.mark.parametrize("objective", ALL)
@pytest.mark.parametrize("score", [0.0, 1e30, -1e30, math.inf])
def test_absent_negatives_change_nothing(objective, score):
    """Whatever stands where no document is, loss and gradient are those of the batch without it."""
    narrow = torch.tensor([[1.0, 0.5, 2.0], [0.0, -1.0, 3.0]])
    there = torch.ones(2, 3, dtype=torch.bool)
    wide = torch.cat([narrow[:, :2], torch.full((2, 2), score), narrow[:, 2:]], dim=1)
    present = torch.tensor([[True, True, False, False, True]] * 2)
    loss, slope = gradient(objective, narrow, there)
    other, other_slope = gradient(objective, wide, present)
    torch.testing.assert_close(other, loss)
    torch.testing.assert_close(other_slope[:, [0, 1, 4]], slope)
    assert not other_slope[:, 2:4].any()


@pytest.mark.parametrize("objective", WITHOUT_NEGATIVES)
def test_a_batch_without_any_negative_is_finite(objective):
    for width in (1, 3):
        scores = torch.randn(2, width, generator=torch.Generator().manual_seed(0))
        present = torch.zeros(2, width, dtype=torch.bool)
        present[:, 0] = True
        loss, slope = gradient(objective, scores, present)
        assert torch.isfinite(loss)
        assert torch.isfinite(slope).all()
        if not isinstance(objective, PointwiseCrossEntropy):
            assert float(loss) == 0


@pytest.mark.by_day(2)
@pytest.mark.parametrize("objective", ALL)
@given(st.lists(st.sampled_from([-3e4, -100.0, 0.0, 100.0, 3e4]), min_size=3, max_size=3))
def test_extreme_scores_are_finite(objective, scores):
    present = torch.tensor([[True, True, True]])
    loss, slope = gradient(objective, torch.tensor([scores]), present)
    assert torch.isfinite(loss)
    assert torch.isfinite(slope).all()
    probabilities = objective.probabilities(torch.tensor([scores]), present)
    assert ((probabilities >= 0) & (probabilities <= 1)).all()
