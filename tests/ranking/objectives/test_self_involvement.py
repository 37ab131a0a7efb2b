"""SIR's losses against float64 numpy, and what each level keeps."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ranking.errors import BadInput
from ranking.objectives.block import Block
from ranking.objectives.objective import Stage
from ranking.objectives.self_involvement import (
    BlockLoss,
    ConditionalSIR,
    JointSIR,
    SequentialSIR,
    block_loss,
    survivors,
)

Scores = NDArray[np.float64]


def log_sum(values: Scores) -> float:
    top = values.max()
    return float(top + np.log(np.exp(values - top).sum()))


def plain_block(scores: Scores) -> float:
    """Equation 1 of one block, in float64; log(1 − P) as the share of all others."""
    whole = log_sum(scores)
    wrong = sum(log_sum(np.delete(scores, place)) - whole for place in range(1, len(scores)))
    return whole - float(scores[0]) - wrong


def plain_levels(scores: Scores, levels: Sequence[int]) -> list[list[int]]:
    """Columns of each level by equation 4; of equal scores the earlier column."""
    columns = [list(range(len(scores)))]
    for size in levels:
        negatives = sorted(columns[-1][1:], key=lambda column: -scores[column])
        columns.append([0, *negatives[: size - 1]])
    return columns


def plain_v3(scores: Scores, levels: Sequence[int]) -> float:
    columns = plain_levels(scores, levels)
    return plain_block(scores[columns[0]]) + plain_block(scores[columns[-1]])


def plain_v4(scores: Scores, levels: Sequence[int], condition: str) -> float:
    logs: dict[int, float] = dict.fromkeys(range(len(scores)), 0.0)
    total = 0.0
    for columns in plain_levels(scores, levels):
        whole = log_sum(scores[columns])
        logs = {column: logs[column] + float(scores[column]) - whole for column in columns}
        product = np.array([logs[column] for column in columns])
        total += plain_block(np.exp(product) if condition == "softmax" else product)
    return total


def tensor(*rows: Sequence[float]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float32)


def all_of(scores: torch.Tensor) -> torch.Tensor:
    return torch.ones_like(scores, dtype=torch.bool)


scores_of = st.lists(
    st.one_of(st.floats(-8, 8, width=32), st.sampled_from([0.0, 1.0, -1.0])), min_size=8, max_size=8
)  # equal scores too


@given(scores_of)
def test_v0_v3_and_v4_are_their_equations(values):
    scores, exact = tensor(values), np.array(values)
    there = all_of(scores)
    assert BlockLoss().loss(scores, Block(there)).item() == pytest.approx(plain_block(exact), rel=1e-4, abs=1e-5)
    for levels in ([5, 3], [6, 4, 2], [4]):
        assert JointSIR(levels).loss(scores, Block(there)).item() == pytest.approx(
            plain_v3(exact, levels), rel=1e-4, abs=1e-5
        )
        for condition in ("softmax", "product"):
            found = ConditionalSIR(levels, condition=condition).loss(scores, Block(there)).item()
            assert found == pytest.approx(plain_v4(exact, levels, condition), rel=1e-4, abs=1e-5)


def test_a_ranker_that_is_sure_and_wrong_still_has_a_gradient():
    """Where 1 − P rounds to 0, a clamped logarithm would have none."""
    scores = tensor([-50.0, 50.0, 0.0]).requires_grad_()
    block_loss(scores, all_of(scores)).sum().backward()
    assert scores.grad[0].tolist() == pytest.approx([-1.0, 2.0, -1.0])


@given(scores_of, st.sampled_from(["top", "random"]), st.integers(2, 8), st.integers(0, 99))
def test_the_positive_always_survives(values, pick, size, seed):
    scores = tensor(values)
    present = all_of(scores)
    present[0, 5] = False
    kept = survivors(scores, present, size, pick, torch.Generator().manual_seed(seed))[0].tolist()
    assert kept[0] == 0
    assert len(set(kept)) == len(kept) == size
    assert 5 not in kept[:7]  # what is not there comes last
    if pick == "top":
        left = [values[c] for c in range(1, 8) if c not in kept and c != 5]
        assert all(values[c] >= max(left, default=-math.inf) for c in kept[1:] if c != 5)


def test_equal_scores_keep_the_order_of_the_columns():
    scores = tensor([0.0, 1, 2, 1, 2, 1])
    assert survivors(scores, all_of(scores), 5, "top", torch.Generator())[0].tolist() == [0, 2, 4, 1, 3]


class Passes:
    """A scorer that notes what it was asked."""

    def __init__(self, scores: torch.Tensor, noise: float = 0.0) -> None:
        self.scores, self.noise, self.asked = scores, noise, list[tuple[int, list[int] | None]]()

    def __call__(self, level: int = 0, columns: torch.Tensor | None = None) -> torch.Tensor:
        self.asked.append((level, None if columns is None else columns[0].tolist()))
        shifted = self.scores + level * self.noise
        return shifted if columns is None else shifted.gather(1, columns)


@pytest.mark.parametrize(("size", "perfect", "ignorant"), [(16, 2.746, 3.741), (48, 3.861, 4.861), (88, 4.472, 5.472)])
def test_equation_7_is_nearly_flat(size, perfect, ignorant):
    """The softmax of a probability is at most e / (e + n − 1), however sure the ranker is of the right document."""
    present, columns = torch.ones(1, size, dtype=torch.bool), torch.arange(size)[None]
    scores = torch.zeros(1, size)
    levels = ConditionalSIR([2])
    assert levels.of_levels([(scores, present, columns)]).item() == pytest.approx(ignorant, abs=1e-3)
    scores[0, 0] = 100
    assert levels.of_levels([(scores, present, columns)]).item() == pytest.approx(perfect, abs=1e-3)
    assert JointSIR([2]).of_levels([(scores, present, columns)]).item() == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize("kind", [JointSIR, ConditionalSIR])
def test_one_pass_is_the_loop_where_nothing_is_dropped(kind):
    scores = torch.randn(3, 12, generator=torch.Generator().manual_seed(4), requires_grad=True)
    found = []
    for passes in ("one", "level"):
        scorer = Passes(scores)
        loss, _ = kind([6, 3], passes=passes).of_passes(scorer, Block(all_of(scores)), torch.Generator())
        (gradient,) = torch.autograd.grad(loss, scores)
        found.append((loss.item(), gradient))
        assert len(scorer.asked) == (1 if passes == "one" else 3)
    assert found[0][0] == pytest.approx(found[1][0], abs=1e-6)
    assert torch.allclose(found[0][1], found[1][1], atol=1e-6)


def test_each_level_is_scored_by_itself_where_asked():
    scorer = Passes(tensor([0.0, 5, 4, 3, 2, 1]), noise=1.0)
    JointSIR([4, 2], passes="level").of_passes(scorer, Block(torch.ones(1, 6, dtype=torch.bool)), torch.Generator())
    assert scorer.asked == [(0, None), (1, [0, 1, 2, 3]), (2, [0, 1])]


def test_picks_at_random_differ_and_repeat():
    scores = torch.randn(2, 40, generator=torch.Generator().manual_seed(0))
    objective = JointSIR([20, 5], pick=["top", "random"])

    def loss(seed: int) -> float:
        generator = torch.Generator().manual_seed(seed)
        return objective.of_passes(Passes(scores), Block(all_of(scores)), generator)[0].item()

    assert loss(1) == loss(1)
    assert len({loss(seed) for seed in range(5)}) == 5


def test_stages_of_v1_and_v2():
    assert BlockLoss().stages() == JointSIR([4]).stages() == [Stage()]
    assert SequentialSIR([48, 16]).stages() == [Stage(), Stage(48, "top", False), Stage(16, "top", False)]
    flowing = SequentialSIR([48, 16], pick=["random", "top"], flows=True)
    assert flowing.stages() == [Stage(), Stage(48, "random", True), Stage(16, "top", True)]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"levels": [16, 48]}, "levels"),
        ({"levels": []}, "levels"),
        ({"levels": [4, 1]}, "levels"),
        ({"levels": [8, 4], "pick": "bottom"}, "pick"),
        ({"levels": [8, 4], "pick": ["top"]}, "pick"),
    ],
)
def test_bad_options(options, what):
    with pytest.raises(BadInput, match=what):
        ConditionalSIR(**options)


def test_a_block_smaller_than_its_levels_is_refused():
    JointSIR([48, 16]).check_block(48)
    with pytest.raises(BadInput, match="can't be compressed to 48"):
        JointSIR([48, 16]).check_block(47)
