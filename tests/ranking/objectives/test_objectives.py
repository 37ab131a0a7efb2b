"""Losses by hand, of one relevant document or of graded gains and teachers, and what all of them promise."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from ranking.errors import BadInput
from ranking.objectives.block import Block
from ranking.objectives.contrastive import Contrastive
from ranking.objectives.distillation import Distillation, MarginMSE
from ranking.objectives.listwise import ApproxNDCG, LambdaRank, ListMLE, ListNet
from ranking.objectives.objective import Objective
from ranking.objectives.pairwise import PairwiseHinge, RankNet
from ranking.objectives.pointwise import PointwiseCrossEntropy
from ranking.objectives.self_involvement import BlockLoss, ConditionalSIR, JointSIR
from ranking.objectives.softmax import SoftmaxLikelihood
from ranking.objectives.weighted_sum import WeightedSum

ALL: list[Objective] = [
    *(SoftmaxLikelihood(), PairwiseHinge(), PairwiseHinge(0.3), RankNet(), PointwiseCrossEntropy(), ListNet()),
    *(BlockLoss(), JointSIR([3, 2]), ConditionalSIR([3, 2]), ConditionalSIR([3, 2], condition="product")),
]
WITHOUT_NEGATIVES = [*ALL[:5], Contrastive(), JointSIR([2])]
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


@pytest.mark.by_day(4)
@pytest.mark.parametrize("objective", ALL)
@given(st.lists(st.sampled_from([-1e30, -3e4, -100.0, 0.0, 100.0, 3e4, 1e30]), min_size=3, max_size=3))
def test_extreme_scores_are_finite(objective, scores):
    present = torch.tensor([[True, True, True]])
    loss, slope = gradient(objective, torch.tensor([scores]), present)
    assert torch.isfinite(loss)
    assert torch.isfinite(slope).all()
    probabilities = objective.probabilities(torch.tensor([scores]), present)
    assert ((probabilities >= 0) & (probabilities <= 1)).all()


ONE_ROW = torch.tensor([[1.0, 3.0, 2.0, 9.0]], dtype=torch.float64)
THREE = torch.tensor([[True, True, True, False]])
GRADES = torch.tensor([[1.0, 0.0, 2.0, 0.0]], dtype=torch.float64)
"""The positive of grade 1, a negative, another relevant document of grade 2, and none."""


def block(teacher: Tensor | None = None, grades: Tensor = GRADES) -> Block:
    return Block(THREE, find_gains=lambda: grades, find_teacher_scores=None if teacher is None else lambda: teacher)


def value(objective: Objective, of: Block) -> float:
    return float(objective.loss(ONE_ROW, of))


def test_contrastive_by_hand():
    def cost(relevant: float, temperature: float) -> float:
        return math.log(1 + math.exp((3 - relevant) / temperature))

    assert value(Contrastive(), block()) == pytest.approx((cost(1, 1) + cost(2, 1)) / 2)
    assert value(Contrastive(0.5), block()) == pytest.approx((cost(1, 0.5) + cost(2, 0.5)) / 2)
    one = Block(THREE)
    assert value(Contrastive(), one) == pytest.approx(value(SoftmaxLikelihood(), one))


def test_lambdarank_by_hand():
    """Ranks are 3, 1 and 2; gains 1, 0 and 3; the ideal DCG is 3 + 1/log₂ 3."""
    discount = [1 / math.log2(4), 1.0, 1 / math.log2(3)]
    ideal = 3 + 1 / math.log2(3)
    pairs = [(0, 1, 1), (2, 1, 3), (2, 0, 2)]  # better, worse, difference of their gains
    scores = ONE_ROW[0].tolist()
    expected = sum(
        gain * abs(discount[i] - discount[j]) / ideal * math.log2(1 + math.exp(scores[j] - scores[i]))
        for i, j, gain in pairs
    )
    assert value(LambdaRank(), block()) == pytest.approx(expected, rel=1e-6)
    cut = 3 * abs(discount[1] - 0) * math.log2(1 + math.exp(1)) + 1 * 1 * math.log2(1 + math.exp(2))
    assert value(LambdaRank(cutoff=1), block()) == pytest.approx(cut / 3, rel=1e-6)


def test_approx_ndcg_by_hand():
    first = 1 + sigmoid(2) + sigmoid(1)
    third = 1 + sigmoid(1) + sigmoid(-1)
    ideal = 3 + 1 / math.log2(3)
    expected = 1 - (1 / math.log2(1 + first) + 3 / math.log2(1 + third)) / ideal
    assert value(ApproxNDCG(), block()) == pytest.approx(expected, rel=1e-6)
    assert value(ApproxNDCG(temperature=0.01), block()) == pytest.approx(
        1 - (1 / math.log2(4) + 3 / math.log2(3)) / ideal, rel=1e-4
    )


def test_list_mle_by_hand():
    """The better one first, then the other; the negative's place is of no account."""
    all_three = math.log(math.exp(1) + math.exp(3) + math.exp(2))
    expected = (all_three - 2) + (math.log(math.exp(1) + math.exp(3)) - 1)
    assert value(ListMLE(), block()) == pytest.approx(expected)
    assert value(ListMLE(), Block(THREE)) == pytest.approx(value(SoftmaxLikelihood(), Block(THREE)))


@pytest.mark.parametrize("label", [0.3, 1.0, 4.0])
def test_listnet_is_the_cross_entropy_of_the_softmaxes_of_grades_and_of_scores(label):
    wanted = torch.softmax(label * torch.tensor([1.0, 0, 2], dtype=torch.float64), 0)
    expected = -(wanted * torch.log_softmax(ONE_ROW[0, :3], 0)).sum()
    twice = Block(THREE.repeat(2, 1), find_gains=lambda: GRADES.repeat(2, 1))
    assert float(ListNet(label).loss(ONE_ROW.repeat(2, 1), twice)) == pytest.approx(float(expected), rel=1e-12)


def test_grades_that_are_not_relevant_are_no_gain():
    low = Block(THREE, find_gains=lambda: torch.tensor([[3.0, 1.0, 1.0, 0.0]]), relevant_from=2)
    assert low.labels.tolist() == [[3, 0, 0, 0]]
    assert Block(THREE).labels.tolist() == [[1, 0, 0, 0]]


def test_margins_of_a_teacher_by_hand():
    teacher = torch.tensor([[5.0, 2.0, float("nan"), 7.0]])
    # The one known pair: the ranker's margin is −2, the teacher's 3.
    assert value(MarginMSE(), block(teacher)) == pytest.approx(25)
    assert value(MarginMSE(scale=0.5), block(teacher)) == pytest.approx(3.5**2)
    nothing = torch.full((1, 4), float("nan"))
    assert value(MarginMSE(), block(nothing)) == value(Distillation(), block(nothing)) == 0
    with pytest.raises(BadInput, match="there is no teacher"):
        value(MarginMSE(), block())


def test_distillation_by_hand():
    teacher = torch.tensor([[2.0, 0.0, float("nan"), 1.0]])
    p = [math.exp(2) / (math.exp(2) + 1), 1 / (math.exp(2) + 1)]
    q = [math.exp(1) / (math.exp(1) + math.exp(3)), math.exp(3) / (math.exp(1) + math.exp(3))]
    expected = sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
    assert value(Distillation(), block(teacher)) == pytest.approx(expected, rel=1e-6)
    assert value(Distillation(), block(ONE_ROW.float())) == pytest.approx(0, abs=1e-6)


def test_a_sum_by_hand():
    teacher = torch.tensor([[5.0, 2.0, float("nan"), 7.0]])
    both = WeightedSum({"margin_mse": 0.1}, contrastive=Contrastive(), margin_mse=MarginMSE())
    assert value(both, block(teacher)) == pytest.approx(value(Contrastive(), block(teacher)) + 2.5)
    assert both.takes_several
    assert not WeightedSum(softmax=SoftmaxLikelihood(), kl=Distillation()).takes_several
    for weights, terms, message in (
        ({"kl": 1.0}, {"softmax": SoftmaxLikelihood()}, "no objective kl"),
        ({"softmax": -1.0}, {"softmax": SoftmaxLikelihood()}, "choose a number from 0 up"),
        ({}, {"sir": JointSIR()}, "a training of its kind"),
    ):
        with pytest.raises(BadInput, match=message):
            WeightedSum(weights, **terms)
    with pytest.raises(BadInput, match="no objective to add up"):
        WeightedSum().check_block(4)
