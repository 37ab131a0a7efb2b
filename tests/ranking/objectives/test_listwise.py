"""Objectives with graded gains, several relevant documents or a teacher, worked out by hand."""

import math

import pytest
import torch
from torch import Tensor

from ranking.errors import BadInput
from ranking.objectives.block import Block
from ranking.objectives.contrastive import Contrastive
from ranking.objectives.distillation import Distillation, MarginMSE
from ranking.objectives.listwise import ApproxNDCG, LambdaRank, ListMLE, ListNet
from ranking.objectives.objective import Objective
from ranking.objectives.self_involvement import JointSIR
from ranking.objectives.softmax import SoftmaxLikelihood
from ranking.objectives.weighted_sum import WeightedSum

SCORES = torch.tensor([[1.0, 3.0, 2.0, 9.0]], dtype=torch.float64)
PRESENT = torch.tensor([[True, True, True, False]])
GRADES = torch.tensor([[1.0, 0.0, 2.0, 0.0]], dtype=torch.float64)
"""The positive of grade 1, a negative, another relevant document of grade 2, and none."""
TWO = torch.tensor([[2.0, 0.0, 1.0], [0.5, 1.5, -3.0]], dtype=torch.float64)
WHOLE = torch.ones(2, 3, dtype=torch.bool)


def block(teacher: Tensor | None = None, grades: Tensor = GRADES) -> Block:
    return Block(PRESENT, find_gains=lambda: grades, find_teacher_scores=None if teacher is None else lambda: teacher)


def value(objective: Objective, of: Block) -> float:
    return float(objective.loss(SCORES, of))


def test_contrastive_by_hand():
    def cost(relevant: float, temperature: float) -> float:
        return math.log(1 + math.exp((3 - relevant) / temperature))

    assert value(Contrastive(), block()) == pytest.approx((cost(1, 1) + cost(2, 1)) / 2)
    assert value(Contrastive(0.5), block()) == pytest.approx((cost(1, 0.5) + cost(2, 0.5)) / 2)
    one = Block(PRESENT)
    assert value(Contrastive(), one) == pytest.approx(value(SoftmaxLikelihood(), one))


def test_lambdarank_by_hand():
    """Ranks are 3, 1 and 2; gains 1, 0 and 3; the ideal DCG is 3 + 1/log₂ 3."""
    discount = [1 / math.log2(4), 1.0, 1 / math.log2(3)]
    ideal = 3 + 1 / math.log2(3)
    pairs = [(0, 1, 1), (2, 1, 3), (2, 0, 2)]  # better, worse, difference of their gains
    scores = SCORES[0].tolist()
    expected = sum(
        gain * abs(discount[i] - discount[j]) / ideal * math.log2(1 + math.exp(scores[j] - scores[i]))
        for i, j, gain in pairs
    )
    assert value(LambdaRank(), block()) == pytest.approx(expected, rel=1e-6)
    cut = 3 * abs(discount[1] - 0) * math.log2(1 + math.exp(1)) + 1 * 1 * math.log2(1 + math.exp(2))
    assert value(LambdaRank(cutoff=1), block()) == pytest.approx(cut / 3, rel=1e-6)


def test_approx_ndcg_by_hand():
    def sigmoid(x: float) -> float:
        return 1 / (1 + math.exp(-x))

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
    assert value(ListMLE(), Block(PRESENT)) == pytest.approx(value(SoftmaxLikelihood(), Block(PRESENT)))


def test_listnet_takes_grades():
    wanted = torch.softmax(torch.tensor([1.0, 0, 2]), 0)
    expected = -(wanted * torch.log_softmax(SCORES[0, :3].float(), 0)).sum()
    assert value(ListNet(), block()) == pytest.approx(float(expected), rel=1e-6)


def test_grades_that_are_not_relevant_are_no_gain():
    low = Block(PRESENT, find_gains=lambda: torch.tensor([[3.0, 1.0, 1.0, 0.0]]), relevant_from=2)
    assert low.labels.tolist() == [[3, 0, 0, 0]]
    assert Block(PRESENT).labels.tolist() == [[1, 0, 0, 0]]


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
    assert value(Distillation(), block(SCORES.float())) == pytest.approx(0, abs=1e-6)


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


def listnet_by_hand(scores: list[float], label: float) -> float:
    labels = [label] + [0.0] * (len(scores) - 1)
    of_labels, of_scores = (sum(map(math.exp, values)) for values in (labels, scores))
    return -sum(
        math.exp(wish) / of_labels * math.log(math.exp(score) / of_scores)
        for wish, score in zip(labels, scores, strict=True)
    )


@pytest.mark.parametrize("label", [0.3, 1.0, 4.0])
def test_listnet_is_the_cross_entropy_of_the_two_softmaxes(label):
    wanted = (listnet_by_hand([2.0, 0.0, 1.0], label) + listnet_by_hand([0.5, 1.5, -3.0], label)) / 2
    assert ListNet(label).loss(TWO, Block(WHOLE)).item() == pytest.approx(wanted, rel=1e-12)


def test_documents_absent_from_listnet_are_in_neither_softmax_and_have_no_gradient():
    scores = TWO.clone().requires_grad_()
    present = torch.tensor([[True, True, False], [True, True, True]])
    loss = ListNet().loss(scores, Block(present))
    loss.backward()
    wanted = (listnet_by_hand([2.0, 0.0], 1) + listnet_by_hand([0.5, 1.5, -3.0], 1)) / 2
    assert loss.item() == pytest.approx(wanted, rel=1e-12)
    assert scores.grad[0, 2] == 0
    assert torch.isfinite(scores.grad).all()


def test_a_large_label_of_listnet_leaves_the_positive_alone():
    assert torch.allclose(
        ListNet(60.0).loss(TWO, Block(WHOLE)), SoftmaxLikelihood().loss(TWO, Block(WHOLE)), atol=1e-12
    )


def test_the_minimum_of_listnet_has_scores_like_the_labels():
    scores = torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    ListNet().loss(scores, Block(WHOLE[:1])).backward()
    assert scores.grad.abs().max() < 1e-12
