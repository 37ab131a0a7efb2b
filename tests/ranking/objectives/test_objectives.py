"""Losses by hand, of one relevant document or of graded gains and teachers, and what all of them promise."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from pyrite.ranking.errors import BadInput
from pyrite.ranking.objectives.block import Block
from pyrite.ranking.objectives.contrastive import Contrastive
from pyrite.ranking.objectives.distillation import Distillation, MarginMSE
from pyrite.ranking.objectives.listwise import ApproxNDCG, LambdaRank, ListMLE, ListNet
from pyrite.ranking.objectives.matryoshka import Matryoshka
from pyrite.ranking.objectives.objective import Objective, Stage
from pyrite.ranking.objectives.pairwise import Hinge, RankNet
from pyrite.ranking.objectives.pointwise import PointwiseCrossEntropy
from pyrite.ranking.objectives.self_involvement import (
    SIR,
    BlockLoss,
    JointSIR,
    SequentialSIR,
    block_loss,
    survivors,
)
from pyrite.ranking.objectives.softmax import Softmax
from pyrite.ranking.objectives.weighted_sum import WeightedSum
from pyrite.ranking.rankers.bi_encoder import BiEncoder
from pyrite.ranking.rankers.cross_encoder import CrossEncoder
from pyrite.ranking.rankers.inputs import RankerInputs
from tests.ranking.trained import NEGATIVES, SHORT, generator, gradients, in_training

ALL: list[Objective] = [
    *(Softmax(), Hinge(), Hinge(0.3), RankNet(), PointwiseCrossEntropy(), ListNet()),
    *(BlockLoss(), JointSIR([3, 2]), SIR([3, 2]), SIR([3, 2], condition="product")),
]
WITHOUT_NEGATIVES = [*ALL[:5], Contrastive(), JointSIR([2])]
SCORES = torch.tensor([[1.0, 0.5, 2.0], [0.0, -1.0, 7.0]], dtype=torch.float64)
PRESENT = torch.tensor([[True, True, True], [True, True, False]])


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def test_losses_of_one_relevant_document_by_hand():
    """Of the three pairs that are there the differences are 0.5, −1 and 1."""
    first = -math.log(math.e / (math.e + math.exp(0.5) + math.exp(2)))
    second = -math.log(1 / (1 + math.exp(-1)))
    positives = -(math.log(sigmoid(1)) + math.log(sigmoid(0))) / 2
    negatives = -sum(math.log(1 - sigmoid(score)) for score in (0.5, 2, -1)) / 3
    for objective, expected in (
        (Softmax(), (first + second) / 2),
        (Hinge(), (0.5 + 2 + 0) / 3),
        (Hinge(2), (1.5 + 3 + 1) / 3),
        (RankNet(), sum(math.log(1 + math.exp(-difference)) for difference in (0.5, -1, 1)) / 3),
        (PointwiseCrossEntropy(), (positives + negatives) / 2),
    ):
        assert float(objective.loss(SCORES, Block(PRESENT))) == pytest.approx(expected, rel=1e-12), objective


def test_probabilities_by_hand():
    softmax = Softmax().probabilities(SCORES, PRESENT)
    assert float(softmax[0, 2]) == pytest.approx(math.exp(2) / (math.e + math.exp(0.5) + math.exp(2)))
    assert softmax.sum(dim=1).tolist() == pytest.approx([1, 1])
    assert float(softmax[1, 2]) == 0
    for pairwise in (Hinge(), RankNet()):
        assert pairwise.probabilities(SCORES, PRESENT)[0].tolist() == pytest.approx([0.5, sigmoid(-0.5), sigmoid(1)])
    pointwise = PointwiseCrossEntropy().probabilities(SCORES, PRESENT)[0].tolist()
    assert pointwise == pytest.approx([sigmoid(1), sigmoid(0.5), sigmoid(2)])


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
    wide = torch.cat([narrow[:, :2], torch.full((2, 2), score), narrow[:, 2:]], dim=1)
    loss, slope = gradient(objective, narrow, torch.ones(2, 3, dtype=torch.bool))
    other, other_slope = gradient(objective, wide, torch.tensor([[True, True, False, False, True]] * 2))
    torch.testing.assert_close(other, loss)
    torch.testing.assert_close(other_slope[:, [0, 1, 4]], slope)
    assert not other_slope[:, 2:4].any()


@pytest.mark.parametrize("objective", WITHOUT_NEGATIVES)
def test_a_batch_without_any_negative_is_finite(objective):
    for width in (1, 3):
        present = torch.zeros(2, width, dtype=torch.bool)
        present[:, 0] = True
        loss, slope = gradient(objective, torch.randn(2, width, generator=generator(0)), present)
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
    assert value(Contrastive(), one) == pytest.approx(value(Softmax(), one))


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


@pytest.mark.parametrize("objective", [LambdaRank(), LambdaRank(cutoff=2), ApproxNDCG()])
def test_gains_of_large_grades_are_numbers_and_those_of_small_ones_as_written(objective, monkeypatch):
    """2^grade is no number of single precision from grade 128 on: counts of clicks are grades too."""
    scores = torch.randn(200, 6, generator=torch.Generator().manual_seed(0))

    def learned(grades: Tensor) -> tuple[Tensor, Tensor]:
        leaf = scores.clone().requires_grad_()
        loss = objective.loss(leaf, Block(torch.ones(grades.shape, dtype=torch.bool), find_gains=lambda: grades))
        loss.backward()
        assert leaf.grad is not None
        return loss.detach(), leaf.grad

    large = torch.randint(0, 2000, scores.shape, generator=torch.Generator().manual_seed(1)).float()
    loss, gradient = learned(large)
    assert loss.isfinite()
    assert gradient.isfinite().all()
    assert gradient.abs().sum() > 0
    small = torch.randint(0, 6, scores.shape, generator=torch.Generator().manual_seed(2)).float()
    relative = learned(small)
    written = lambda block: (2**block.labels - 1).masked_fill(~block.present, 0)  # noqa: E731
    monkeypatch.setattr("pyrite.ranking.objectives.listwise.gains_of", written)
    assert all(map(torch.equal, relative, learned(small)))


def test_approx_ndcg_by_hand():
    first = 1 + sigmoid(2) + sigmoid(1)
    third = 1 + sigmoid(1) + sigmoid(-1)
    ideal = 3 + 1 / math.log2(3)
    expected = 1 - (1 / math.log2(1 + first) + 3 / math.log2(1 + third)) / ideal
    assert value(ApproxNDCG(), block()) == pytest.approx(expected, rel=1e-6)
    exact = 1 - (1 / math.log2(4) + 3 / math.log2(3)) / ideal
    assert value(ApproxNDCG(temperature=0.01), block()) == pytest.approx(exact, rel=1e-4)


def test_list_mle_by_hand():
    """The better one first, then the other; the negative's place is of no account."""
    all_three = math.log(math.exp(1) + math.exp(3) + math.exp(2))
    expected = (all_three - 2) + (math.log(math.exp(1) + math.exp(3)) - 1)
    assert value(ListMLE(), block()) == pytest.approx(expected)
    assert value(ListMLE(), Block(THREE)) == pytest.approx(value(Softmax(), Block(THREE)))


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
    assert not WeightedSum(softmax=Softmax(), kl=Distillation()).takes_several
    for weights, terms, message in (
        ({"kl": 1.0}, {"softmax": Softmax()}, "no objective kl"),
        ({"softmax": -1.0}, {"softmax": Softmax()}, "choose a number from 0 up"),
        ({}, {"sir": JointSIR()}, "a training of its kind"),
    ):
        with pytest.raises(BadInput, match=message):
            WeightedSum(weights, **terms)
    with pytest.raises(BadInput, match="no objective to add up"):
        WeightedSum().check_block(4)


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
        columns.append([0, *sorted(columns[-1][1:], key=lambda column: -scores[column])[: size - 1]])
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
        found = JointSIR(levels).loss(scores, Block(there)).item()
        assert found == pytest.approx(plain_v3(exact, levels), rel=1e-4, abs=1e-5)
        for condition in ("softmax", "product"):
            found = SIR(levels, condition=condition).loss(scores, Block(there)).item()
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
        self.scores, self.noise, self.asked = scores, noise, list[list[int] | None]()

    def __call__(self, columns: torch.Tensor | None = None) -> torch.Tensor:
        shifted = self.scores + len(self.asked) * self.noise
        self.asked.append(None if columns is None else columns[0].tolist())
        return shifted if columns is None else shifted.gather(1, columns)


@pytest.mark.parametrize(("size", "perfect", "ignorant"), [(16, 2.746, 3.741), (48, 3.861, 4.861), (88, 4.472, 5.472)])
def test_equation_7_is_nearly_flat(size, perfect, ignorant):
    """The softmax of a probability is at most e / (e + n − 1), however sure the ranker is of the right document."""
    present, columns = torch.ones(1, size, dtype=torch.bool), torch.arange(size)[None]
    scores = torch.zeros(1, size)
    levels = SIR([2])
    assert levels.of_levels([(scores, present, columns)]).item() == pytest.approx(ignorant, abs=1e-3)
    scores[0, 0] = 100
    assert levels.of_levels([(scores, present, columns)]).item() == pytest.approx(perfect, abs=1e-3)
    assert JointSIR([2]).of_levels([(scores, present, columns)]).item() == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize("kind", [JointSIR, SIR])
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
    assert scorer.asked == [None, [0, 1, 2, 3], [0, 1]]


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
        SIR(**options)


def test_a_block_smaller_than_its_levels_is_refused():
    JointSIR([48, 16]).check_block(48)
    with pytest.raises(BadInput, match="can't be compressed to 48"):
        JointSIR([48, 16]).check_block(47)


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_the_loss_is_the_sum_over_shorter_vectors(similarity, made_up, read_as, tiny_sources):
    texts = read_as(BiEncoder.tokenization(checkpoint=made_up(), **SHORT))
    made = BiEncoder(made_up(), similarity=similarity, **SHORT).start(RankerInputs(generator()))
    training = in_training(made, texts, tiny_sources, objective=Matryoshka(Softmax(), [8, 4], [1.0, 0.5]))
    batch = training.next_batch()
    shown = np.concatenate([batch.positives[:, None], NEGATIVES], axis=1)
    with torch.no_grad():
        queries = made.represent_queries(texts.queries.take(batch.queries))
        documents = made.represent_documents(texts.documents)[torch.from_numpy(np.maximum(shown, 0)).long()]
    wanted = 0.0
    for dimension, weight in ((16, 1.0), (8, 1.0), (4, 0.5)):
        one, other = queries[:, :dimension], documents[..., :dimension]
        if similarity == "cosine":
            one, other = F.normalize(one, dim=-1), F.normalize(other, dim=-1)
        scores = made.scale * (other @ one[..., None])[..., 0]
        scores = scores.masked_fill(torch.from_numpy(shown < 0), -torch.inf)
        wanted -= weight * float(scores.log_softmax(1)[:, 0].mean())
    assert training.update(batch, NEGATIVES).loss == pytest.approx(wanted, rel=1e-5)


def test_chunks_and_parts_of_a_batch_give_the_same_gradient(made_up, read_as, tiny_sources):
    texts = read_as(BiEncoder.tokenization(checkpoint=made_up(), **SHORT))

    def of(**options: Any) -> dict[str, torch.Tensor]:
        made, objective = BiEncoder(made_up(), **SHORT).start(RankerInputs(generator())), Matryoshka(Softmax(), [8])
        return gradients(in_training(made, texts, tiny_sources, objective=objective, **options))

    whole = of()
    for options in ({"chunk": 3}, {"accumulate": 2}):
        for name, gradient in of(**options).items():
            torch.testing.assert_close(gradient, whole[name], rtol=1e-4, atol=1e-6)


def test_what_has_no_shorter_vectors_is_refused(made_up, read_as, tiny_sources):
    with pytest.raises(BadInput, match="several times"):
        Matryoshka(JointSIR(), [8])
    with pytest.raises(BadInput, match="weights for"):
        Matryoshka(Softmax(), [8], [1.0, 2.0])
    with pytest.raises(BadInput, match="dimensions is empty"):
        Matryoshka(Softmax()).check_block(3)
    for kind, dimensions, says in ((BiEncoder, [16], "not below the 16"), (CrossEncoder, [4], "no vectors")):
        texts = read_as(kind.tokenization(checkpoint=made_up(), **SHORT))
        made = kind(made_up(), **SHORT).start(RankerInputs(generator()))
        training = in_training(made, texts, tiny_sources, objective=Matryoshka(Softmax(), dimensions))
        with pytest.raises(BadInput, match=says):
            training.update(training.next_batch(), NEGATIVES)
