import math

import pytest
import torch

from ranking.objectives.block import Block
from ranking.objectives.listnet import ListNet
from ranking.objectives.softmax import SoftmaxLikelihood

SCORES = torch.tensor([[2.0, 0.0, 1.0], [0.5, 1.5, -3.0]], dtype=torch.float64)
WHOLE = torch.ones(2, 3, dtype=torch.bool)


def by_hand(scores: list[float], label: float) -> float:
    labels = [label] + [0.0] * (len(scores) - 1)
    of_labels, of_scores = (sum(map(math.exp, values)) for values in (labels, scores))
    return -sum(
        math.exp(wish) / of_labels * math.log(math.exp(score) / of_scores)
        for wish, score in zip(labels, scores, strict=True)
    )


@pytest.mark.parametrize("label", [0.3, 1.0, 4.0])
def test_it_is_the_cross_entropy_of_the_two_softmaxes(label):
    wanted = (by_hand([2.0, 0.0, 1.0], label) + by_hand([0.5, 1.5, -3.0], label)) / 2
    assert ListNet(label).loss(SCORES, Block(WHOLE)).item() == pytest.approx(wanted, rel=1e-12)


def test_absent_documents_are_in_neither_softmax_and_have_no_gradient():
    scores = SCORES.clone().requires_grad_()
    present = torch.tensor([[True, True, False], [True, True, True]])
    loss = ListNet().loss(scores, Block(present))
    loss.backward()
    wanted = (by_hand([2.0, 0.0], 1) + by_hand([0.5, 1.5, -3.0], 1)) / 2
    assert loss.item() == pytest.approx(wanted, rel=1e-12)
    assert scores.grad[0, 2] == 0
    assert torch.isfinite(scores.grad).all()


def test_a_large_label_leaves_the_positive_alone():
    assert torch.allclose(
        ListNet(60.0).loss(SCORES, Block(WHOLE)), SoftmaxLikelihood().loss(SCORES, Block(WHOLE)), atol=1e-12
    )


def test_the_minimum_has_scores_like_the_labels():
    scores = torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    ListNet().loss(scores, Block(WHOLE[:1])).backward()
    assert scores.grad.abs().max() < 1e-12
