from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ranking.checkpoint import from_bytes, to_bytes
from ranking.evaluation.evaluation import Evaluation
from ranking.evaluation.origins import RandomCandidates
from ranking.objectives.block import Block
from ranking.objectives.objective import Objective
from ranking.objectives.pairwise import PairwiseHinge, RankNet
from ranking.objectives.pointwise import PointwiseCrossEntropy
from ranking.objectives.softmax import SoftmaxLikelihood
from ranking.rankers.bag import padded_mean, weighted_mean
from ranking.rankers.feed_forward import FeedForward
from ranking.rankers.match_pyramid import MatchPyramid
from ranking.rankers.ranker import Ranker
from ranking.sources import Sources
from ranking.stacked import can_stack, stacked_update, step_together
from ranking.texts import Texts
from ranking.training import Batch, RankerTraining, UpdateResult

RANKERS = [FeedForward, MatchPyramid]
OPTIMIZERS = {
    "adam": partial(torch.optim.Adam, lr=0.01, fused=True),
    "adamw": partial(torch.optim.AdamW, lr=0.01),
    "sgd": partial(torch.optim.SGD, lr=0.1, momentum=0.9),
}


def training(sources: Sources, seed: int, ranker: Any = FeedForward, **options: Any) -> RankerTraining:
    """A training of five examples in batches of two, in double precision unless told otherwise."""
    vectors = sources.vectors.filled(np.random.default_rng(seed))
    candidates = RandomCandidates(8).candidates(sources, np.array([4, 5]))
    made = ranker(vectors, torch.Generator().manual_seed(seed), preset="tiny", **options.pop("widths", {}))
    options = {"batch_size": 2, "max_epochs": 4, "patience": 4} | options
    return RankerTraining(
        made.to(options.pop("dtype", torch.float64)),
        options.pop("objective", None) or SoftmaxLikelihood(),
        sources.encoded,
        np.arange(4),
        Evaluation(sources.encoded, candidates, ["AP@8"]),
        options.pop("optimizer", OPTIMIZERS["adam"]),
        np.random.default_rng(seed),
        **options,
    )


def draw(trainings: Sequence[RankerTraining], rng: np.random.Generator) -> tuple[list[Batch], list[np.ndarray]]:
    """The next batches and negatives for each, some of them missing and not equally many for all."""
    batches = [each.next_batch() for each in trainings]
    counts = [2 + row % 2 for row in range(len(batches))]
    return batches, [
        rng.integers(-1, 12, (len(batch), n)).astype(np.int32) for batch, n in zip(batches, counts, strict=True)
    ]


def singly(
    trainings: Sequence[RankerTraining], batches: Sequence[Batch], negatives: Sequence[np.ndarray]
) -> list[UpdateResult]:
    return [each.update(*given_ones) for each, *given_ones in zip(trainings, batches, negatives, strict=True)]


def assert_close(one: RankerTraining, other: RankerTraining, rtol: float = 1e-7, atol: float = 1e-8) -> None:
    counters = [(each.epoch, each.step, each.position, each.best_epoch, each.diverged) for each in (one, other)]
    assert counters[0] == counters[1]
    assert np.array_equal(one.order, other.order)
    for numbers in ("losses", "validations", "_epoch_loss"):
        np.testing.assert_allclose(getattr(one, numbers), getattr(other, numbers), rtol=rtol, atol=atol)
    for name, tensor in one.ranker.state_dict().items():
        torch.testing.assert_close(tensor, other.ranker.state_dict()[name], rtol=rtol, atol=atol)


def assert_same_steps(
    some: list[UpdateResult], others: list[UpdateResult], rtol: float = 1e-6, atol: float = 1e-8
) -> None:
    for one, other in zip(some, others, strict=True):
        assert one.scores.dtype == other.scores.dtype == np.float32
        np.testing.assert_allclose(one.scores, other.scores, rtol=rtol, atol=atol)
        assert one.loss == pytest.approx(other.loss, rel=rtol, abs=atol)
        assert one.gradient_norm == pytest.approx(other.gradient_norm, rel=rtol, abs=atol)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("ranker", RANKERS)
def test_copies_train_as_each_does_alone_and_drop_out_when_done(
    tiny_sources: Sources, ranker: type[Ranker], optimizer: str
) -> None:
    """Some end sooner, some learn faster, and all see a short last batch; the ends of epochs fall together."""

    def copies() -> list[RankerTraining]:
        rates = (1.0, 1.0, 0.5)
        return [
            training(tiny_sources, seed, ranker, max_epochs=epochs, optimizer=_slower(OPTIMIZERS[optimizer], rate))
            for seed, (epochs, rate) in enumerate(zip((1, 3, 2), rates, strict=True))
        ]

    together, alone = copies(), copies()
    rng, taken = np.random.default_rng(0), []
    while going := [row for row, each in enumerate(together) if not each.done]:
        batches, negatives = draw([together[row] for row in going], rng)
        steps = stacked_update([together[row] for row in going], batches, negatives)
        assert_same_steps(steps, singly([alone[row] for row in going], batches, negatives))
        for each in (copies[row] for copies in (together, alone) for row in going):
            if each.epoch_over:
                each.validate()
        taken.append(len(going))
    assert taken == [3] * 3 + [2] * 3 + [1] * 3
    for one, other in zip(together, alone, strict=True):
        assert_close(one, other)


def _slower(optimizer: Any, rate: float) -> Any:
    return partial(optimizer, lr=optimizer.keywords["lr"] * rate)


@pytest.mark.parametrize("ranker", RANKERS)
def test_batches_of_different_sizes_go_together(tiny_sources: Sources, ranker: type[Ranker]) -> None:
    together, alone = ([training(tiny_sources, seed, ranker) for seed in range(4)] for _ in range(2))
    for copies in (together, alone):
        for row in (1, 3):  # are two updates ahead, so that their next batch is the short one
            for _ in range(2):
                copies[row].update(copies[row].next_batch(), np.full((2, 2), 7, np.int32))
    batches, negatives = draw(together, np.random.default_rng(0))
    assert [len(batch) for batch in batches] == [2, 1, 2, 1]
    steps = stacked_update(together, batches, negatives)
    assert [step.scores.shape for step in steps] == [(2, 3), (1, 4), (2, 3), (1, 4)]
    assert_same_steps(steps, singly(alone, batches, negatives))
    for one, other in zip(together, alone, strict=True):
        assert_close(one, other)
    assert [each.epoch_over for each in together] == [False, True, False, True]


@pytest.mark.parametrize("ranker", RANKERS)
def test_single_precision_stays_close(tiny_sources: Sources, ranker: type[Ranker]) -> None:
    options: dict[str, Any] = {"dtype": torch.float32, "optimizer": OPTIMIZERS["sgd"]}
    together, alone = ([training(tiny_sources, seed, ranker, **options) for seed in range(3)] for _ in range(2))
    rng = np.random.default_rng(0)
    for _ in range(3):
        drawn = draw(together, rng)
        assert_same_steps(stacked_update(together, *drawn), singly(alone, *drawn), rtol=1e-4, atol=1e-6)
    for one, other in zip(together, alone, strict=True):
        assert_close(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("objective", [PairwiseHinge(0.5), RankNet(), PointwiseCrossEntropy()])
def test_every_objective_stacks(tiny_sources: Sources, objective: Objective) -> None:
    together, alone = ([training(tiny_sources, seed, objective=objective) for seed in range(2)] for _ in range(2))
    drawn = draw(together, np.random.default_rng(0))
    drawn[1][1][:] = -1  # no negative at all
    assert_same_steps(stacked_update(together, *drawn), singly(alone, *drawn))
    for one, other in zip(together, alone, strict=True):
        assert_close(one, other)


class Root(Objective):
    """√Σ scores² of what is present: finite where all scores are 0, and its slope is not."""

    def loss(self, scores: Tensor, block: Block) -> Tensor:
        return scores.masked_fill(~block.present, 0).pow(2).sum().sqrt()

    def probabilities(self, scores: Tensor, present: Tensor) -> Tensor:
        raise NotImplementedError


@pytest.mark.parametrize("by", ["loss", "gradient"])
def test_one_that_diverges_leaves_the_others_alone(tiny_sources: Sources, by: str) -> None:
    def copies() -> list[RankerTraining]:
        made = [training(tiny_sources, seed, objective=Root(), dtype=torch.float32) for seed in range(3)]
        with torch.no_grad():
            for parameter in made[1].ranker.layers()[-1].parameters():
                parameter.fill_(math.nan if by == "loss" else 0)
        return made

    together, alone, others = copies(), copies(), copies()
    before = {name: tensor.clone() for name, tensor in together[1].ranker.state_dict().items()}
    batches, negatives = draw(together, np.random.default_rng(0))
    steps = stacked_update(together, batches, negatives)
    expected = singly(alone, batches, negatives)
    for one, other in zip(steps, expected, strict=True):
        np.testing.assert_allclose(one.loss, other.loss, rtol=1e-5)
        np.testing.assert_allclose(one.gradient_norm, other.gradient_norm, rtol=1e-5)
    assert [each.diverged for each in together] == [each.diverged for each in alone] == [False, True, False]
    assert together[1].epoch_over
    assert (together[1].step, together[1].position) == (alone[1].step, alone[1].position)
    assert not together[1].optimizer.state
    for name, tensor in together[1].ranker.state_dict().items():
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0, equal_nan=True)
    # To the bit what they are beside a neighbour that is well.
    with torch.no_grad():
        for parameter in others[1].ranker.layers()[-1].parameters():
            parameter.fill_(0.1)
    stacked_update(others, batches, negatives)
    assert not others[1].diverged
    for row in (0, 2):
        for name, tensor in together[row].ranker.state_dict().items():
            assert torch.equal(tensor, others[row].ranker.state_dict()[name]), name
    assert math.isnan(together[1].validate())
    assert together[1].done


def test_all_may_diverge(tiny_sources: Sources) -> None:
    together = [training(tiny_sources, seed) for seed in range(2)]
    for each in together:
        with torch.no_grad():
            each.ranker.layers()[-1].bias.fill_(math.inf)  # type: ignore[operator, union-attr]
    steps = stacked_update(together, *draw(together, np.random.default_rng(0)))
    assert [each.diverged for each in together] == [True, True]
    assert [step.gradient_norm for step in steps] == [0.0, 0.0]


def test_what_was_stacked_goes_on_alone_and_from_a_checkpoint(tiny_sources: Sources) -> None:
    together, alone = ([training(tiny_sources, seed) for seed in range(2)] for _ in range(2))
    rng = np.random.default_rng(0)
    for _ in range(2):
        drawn = draw(together, rng)
        stacked_update(together, *drawn)
        singly(alone, *drawn)
    loaded = [training(tiny_sources, 9), together[1]]
    loaded[0].load_state_dict(from_bytes(to_bytes(together[0].state_dict())))
    drawn = draw(together, rng)
    assert_same_steps(singly(loaded, *drawn), singly(alone, *drawn))
    for one, other in zip(loaded, alone, strict=True):
        assert_close(one, other)


def test_no_gradient_is_kept_and_equal_input_gives_equal_bits(tiny_sources: Sources) -> None:
    runs = [[training(tiny_sources, seed, dtype=torch.float32) for seed in range(3)] for _ in range(2)]
    for run in runs:
        rng = np.random.default_rng(0)
        for _ in range(3):
            stacked_update(run, *draw(run, rng))
    for one, other in zip(*runs, strict=True):
        assert all(parameter.grad is None for parameter in one.ranker.parameters())
        assert one._epoch_loss == other._epoch_loss
        for name, tensor in one.ranker.state_dict().items():
            assert torch.equal(tensor, other.ranker.state_dict()[name])


def test_frozen_weights_stay(tiny_sources: Sources) -> None:
    together, alone = ([training(tiny_sources, seed, MatchPyramid) for seed in range(2)] for _ in range(2))
    for each in (*together, *alone):
        each.ranker.vectors.requires_grad_(False)  # type: ignore[operator, union-attr]
    frozen = together[0].ranker.vectors.clone()  # type: ignore[operator]
    drawn = draw(together, np.random.default_rng(0))
    assert_same_steps(stacked_update(together, *drawn), singly(alone, *drawn))
    assert torch.equal(together[0].ranker.vectors, frozen)  # type: ignore[arg-type]
    assert_close(together[0], alone[0])


class Operators(TorchDispatchMode):
    """Counts what is dispatched to the device, views aside."""

    count = 0

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += operator.name().startswith("aten::") and not operator.is_view
        return operator(*args, **(kwargs or {}))


@pytest.mark.parametrize("ranker", RANKERS)
def test_more_copies_take_no_more_kernels(tiny_sources: Sources, ranker: type[Ranker]) -> None:
    counts = []
    for copies in (2, 7):
        together = [training(tiny_sources, seed, ranker) for seed in range(copies)]
        rng = np.random.default_rng(0)
        stacked_update(together, *draw(together, rng))  # which makes the optimizers' states
        drawn = draw(together, rng)
        with Operators() as operators:
            stacked_update(together, *drawn)
        counts.append(operators.count)
    assert counts[0] == counts[1]


class Unpadded(FeedForward):
    """Reads ragged texts alone."""

    score_padded = Ranker.score_padded


def test_what_can_be_stacked(tiny_sources: Sources) -> None:
    one = training(tiny_sources, 0)
    alike = training(tiny_sources, 1, max_epochs=9, patience=1, optimizer=_slower(OPTIMIZERS["adam"], 0.5))
    assert can_stack([one], forced=True)
    assert can_stack([one, alike], forced=True)
    assert not can_stack([one, alike])  # on a CPU each is stepped alone
    other_collection = training(tiny_sources, 0)
    other_collection.encoded = Sources(tiny_sources.collection, _again(one.encoded), tiny_sources.vectors).encoded
    for other in (
        training(tiny_sources, 0, MatchPyramid),
        training(tiny_sources, 0, widths={"upper": [7]}),
        training(tiny_sources, 0, dtype=torch.float32),
        training(tiny_sources, 0, optimizer=OPTIMIZERS["sgd"]),
        training(tiny_sources, 0, objective=RankNet()),
        training(tiny_sources, 0, gradient_layers=1),
        other_collection,
    ):
        assert can_stack([other], forced=True)
        assert not can_stack([one, other], forced=True)
    hinges = [training(tiny_sources, 0, objective=PairwiseHinge(margin)) for margin in (1.0, 1.0, 2.0)]
    assert can_stack(hinges[:2], forced=True)
    assert not can_stack(hinges, forced=True)
    assert not can_stack([training(tiny_sources, 0, Unpadded)], forced=True)
    read = {"categories": True, "labels": one.encoded.label_counts}
    assert not can_stack([training(tiny_sources, 0, widths=read)], forced=True)
    with pytest.raises(NotImplementedError, match="Unpadded"):
        stacked_update([training(tiny_sources, 0, Unpadded)], *draw([one], np.random.default_rng(0)))


def _again(encoded: Any) -> Any:
    return type(encoded)(**vars(encoded))


def test_one_step_of_many_optimizers_by_hand() -> None:
    weights = [torch.nn.Parameter(torch.tensor([1.0, 2.0])) for _ in range(4)]
    rates = [0.1, 0.5, 0.1, 0.1]
    optimizers = [torch.optim.SGD([each], lr=rate) for each, rate in zip(weights, rates, strict=True)]
    for row, each in enumerate(weights[:3]):  # the last one has no gradient
        each.grad = torch.tensor([1.0, -row])
    step_together(optimizers)
    expected = [[0.9, 2.0], [0.5, 2.5], [0.9, 2.2], [1.0, 2.0]]
    torch.testing.assert_close(torch.stack(list(weights)).detach(), torch.tensor(expected))
    step_together([])


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_optimizers_at_different_steps_stay_apart_to_the_bit(optimizer: str) -> None:
    def made() -> tuple[list[torch.nn.Parameter], list[torch.optim.Optimizer]]:
        generator = torch.Generator().manual_seed(0)
        weights = [torch.nn.Parameter(torch.randn(5, generator=generator)) for _ in range(3)]
        return weights, [OPTIMIZERS[optimizer]([each]) for each in weights]

    generator = torch.Generator().manual_seed(1)
    (together, joint), (alone, each) = made(), made()
    for chosen in ([0], [0, 1], [2, 1, 0], [1, 2]):
        for row in chosen:
            together[row].grad = alone[row].grad = torch.randn(5, generator=generator)
            each[row].step()
        step_together([joint[row] for row in chosen])
    for row in range(3):
        assert torch.equal(together[row], alone[row])
        assert list(joint[row].state) == [together[row]]
        states = [one.state_dict()["state"][0] for one in (joint[row], each[row])]
        assert states[0].keys() == states[1].keys()
        assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


VECTORS = np.random.default_rng(0).normal(size=(12, 5)).astype(np.float32)
TEXT = st.lists(st.integers(1, 11), min_size=1, max_size=9)


def padded(texts: Texts, width: int) -> Tensor:
    return torch.from_numpy(texts.padded(width)).long()


@given(st.lists(TEXT, min_size=1, max_size=5), st.integers(0, 3))
def test_the_padded_mean_is_the_ragged_one(tokens: list[list[int]], spare: int) -> None:
    texts = Texts.of(tokens)
    vectors = torch.from_numpy(VECTORS).double()
    weights = torch.linspace(-2, 2, 12, dtype=torch.float64)
    found = padded_mean(vectors, weights, padded(texts, int(texts.lengths.max()) + spare))
    torch.testing.assert_close(found, weighted_mean(vectors, weights, texts), rtol=1e-12, atol=1e-12)


def test_the_padded_mean_by_hand() -> None:
    vectors = torch.tensor([[99.0], [10.0], [20.0]])
    weights = torch.tensor([5.0, 0.0, math.log(3)])
    means = padded_mean(vectors, weights, torch.tensor([[1, 0, 0], [1, 2, 0], [1, 1, 2]]))
    assert means[:, 0].tolist() == pytest.approx([10, 17.5, 16])


@settings(max_examples=20)
@given(
    st.lists(TEXT, min_size=2, max_size=2), st.lists(TEXT, min_size=6, max_size=6), st.integers(0, 3), st.integers(0, 3)
)
@pytest.mark.parametrize("kind", RANKERS)
def test_padded_texts_score_as_ragged_ones(
    kind: Any, queries: list[list[int]], documents: list[list[int]], spare: int, wider: int
) -> None:
    ranker = kind(VECTORS, torch.Generator().manual_seed(1), preset="tiny").double()
    asked, shown = Texts.of(queries), Texts.of(documents)
    with torch.no_grad():
        expected = ranker(asked, shown)
        of_queries = padded(asked, int(asked.lengths.max()) + spare)
        of_documents = padded(shown, int(shown.lengths.max()) + wider).unflatten(0, (2, 3))
        found = ranker.score_padded(of_queries, of_documents)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
