from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor, nn

from ranking.rankers.ranker import Ranker
from ranking.texts import Texts
from ranking.training import Batch, UpdateResult
from sampling.selection.adversarial import Adversarial, GeneratorDraw
from tests.ranking.trained import equal, weights
from tests.sampling.batches import listed

STEP = UpdateResult(0.0, 0.0, np.zeros((1, 1), np.float32))
LIST = [1, 2, 3, 4]
PAYS = np.array([0.0, -2.0, 0.5, 3.0, 1.0], np.float32)
"""The discriminator's score of each document."""


class Table(Ranker):
    """One score a document, whatever the query."""

    def __init__(self, scores: list[float]) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.tensor(scores))

    def represent_queries(self, queries: Texts) -> Tensor:
        return self.scores.new_zeros(len(queries))

    def represent_documents(self, documents: Texts) -> Tensor:
        return self.scores[torch.from_numpy(documents.tokens.astype(np.int64))]

    def interact(self, queries: Tensor, documents: Tensor) -> Tensor:
        return queries + documents

    def layers(self) -> list[nn.Module]:
        return [self]


Make = Callable[..., tuple[Adversarial, Any, Any, Batch]]


@pytest.fixture
def make(encoded_of) -> Make:
    """A selector whose generator is a `Table`, a training that scores by `PAYS`, a function and a batch.

    Document d is the word d. The first query's list is `LIST`, the second's has one document, the third's none.
    """

    def start(
        generator: list[float] | None = None, rows: list[int] | None = None, **options: Any
    ) -> tuple[Adversarial, Any, Any, Batch]:
        encoded = encoded_of([[d] for d in range(5)], [[1]] * 3, {})
        training = SimpleNamespace(
            ranker=Table(generator or [0.0] * 5),
            encoded=encoded,
            score=lambda queries, documents: np.where(documents < 0, -np.inf, PAYS[documents]).astype(np.float32),
        )
        selector = Adversarial(**options)
        selector.start_run({}, training)
        function = listed([LIST, [3], []])
        queries = np.array(rows or [0])
        return selector, training, function, Batch(queries, np.zeros(len(queries), np.int32))

    return start


def drawn(documents: list[list[int]], candidates: list[list[int]]) -> GeneratorDraw:
    array = np.array(documents, np.int32)
    return GeneratorDraw(array, np.zeros(array.shape, np.float32), np.array(candidates, np.int32))


def gradient(selector: Adversarial, batch: Batch, candidates: GeneratorDraw, training: Any) -> np.ndarray:
    selector.generator.zero_grad()
    selector.surrogate(batch, candidates, training).backward()
    (scores,) = selector.generator.parameters()
    return -scores.grad.numpy().copy()


def by_hand(scores: np.ndarray, left: list[int], chosen: int, rewards: np.ndarray, temperature: float) -> np.ndarray:
    """∇ log p(chosen)·(r(chosen) − E r) for p = softmax of scores/τ over those left."""
    shares = np.zeros(5)
    shares[left] = np.exp(scores[left] / temperature)
    shares /= shares.sum()
    return ((np.arange(5) == chosen) - shares) / temperature * (rewards[chosen] - shares @ rewards)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
@pytest.mark.parametrize("reward", ["softplus", "sigmoid"])
def test_the_gradient_is_reinforces_by_hand(make, temperature, reward):
    scores = np.array([9.0, 0.3, -0.2, 0.5, 0.0])
    selector, training, _, batch = make(scores.tolist(), temperature=temperature, reward=reward)
    pays = PAYS.astype(float)
    rewards = np.log1p(np.exp(pays)) if reward == "softplus" else 2 / (1 + np.exp(-pays)) - 1
    found = gradient(selector, batch, drawn([[3, 1]], [[4, 1, 3, 2]]), training)
    first = by_hand(scores, [1, 2, 3, 4], 3, rewards, temperature)
    second = by_hand(scores, [1, 2, 4], 1, rewards, temperature)
    assert found == pytest.approx((first + second) / 2, abs=1e-6)
    assert found[3] > 0 > found[1]  # better than expected, and worse
    assert found[0] == 0  # no candidate


def test_draws_of_all_queries_weigh_the_same_and_empty_places_nothing(make):
    scores = np.array([0.0, 0.3, -0.2, 0.5, 0.0])
    selector, training, _, batch = make(scores.tolist(), rows=[0, 1, 2])
    candidates = drawn([[3, 1], [3, -1], [-1, -1]], [[4, 1, 3, 2], [3, -1, -1, -1], [-1, -1, -1, -1]])
    rewards = np.log1p(np.exp(PAYS.astype(float)))
    first = by_hand(scores, [1, 2, 3, 4], 3, rewards, 1.0)
    second = by_hand(scores, [1, 2, 4], 1, rewards, 1.0)
    # The second query's only document had to be drawn, which says nothing but counts as a draw.
    assert gradient(selector, batch, candidates, training) == pytest.approx((first + second) / 3, abs=1e-6)


@pytest.mark.by_day(2)
@pytest.mark.parametrize("reward", ["softplus", "sigmoid"])
@pytest.mark.parametrize("seed", range(3))
def test_the_generator_moves_towards_what_the_discriminator_scores_high(make, reward, seed):
    selector, training, function, batch = make(lr=0.05, reward=reward, rows=[0] * 8)
    rng, masses = np.random.default_rng(seed), []
    for _ in range(120):
        (scores,) = selector.generator.parameters()
        masses.append(torch.softmax(scores.detach()[1:], 0).numpy())
        candidates = selector.select(batch, function, 2, training, rng)
        selector.observe(batch, candidates, STEP, training, rng)
    of_best, of_worst = np.array(masses)[:, [2, 0]].T
    assert of_best[0] == of_worst[0] == 0.25
    assert of_best[40] > 0.4
    assert of_best[-1] > of_best[40]
    assert of_best[-1] > 0.7
    assert of_worst[-1] < 0.05
    (untouched,) = training.ranker.parameters()  # the copy learns, not the ranker
    assert not untouched.any()


def test_draws_follow_the_generator_and_its_temperature(make):
    logits = np.log([1.0, 1.0, 2.0, 3.0, 4.0])
    for temperature in (1.0, 0.5):
        selector, training, function, batch = make(logits.tolist(), temperature=temperature, rows=[0] * 8000)
        candidates = selector.select(batch, function, 2, training, np.random.default_rng(0))
        share = np.exp(logits[1:] / temperature)
        share /= share.sum()
        counts = np.bincount(candidates.documents[:, 0], minlength=5)[1:]
        assert chisquare(counts, share * 8000).pvalue > 0.01
        second = [sum(share[a] * share[b] / (1 - share[a]) for a in range(4) if a != b) for b in range(4)]
        counts = np.bincount(candidates.documents[:, 1], minlength=5)[1:]
        assert chisquare(counts, np.array(second) * 8000).pvalue > 0.01


@pytest.mark.parametrize("count", [1, 3, 4, 6])
def test_distinct_documents_of_the_lists_and_as_many_as_there_are(make, count):
    selector, training, function, batch = make(rows=[0, 1, 2] * 10)
    candidates = selector.select(batch, function, count, training, np.random.default_rng(0))
    assert candidates.documents.dtype == np.int32
    assert candidates.documents.shape == candidates.scores.shape
    for query, row in zip(batch.queries, candidates.documents[:, :count].tolist(), strict=True):
        there = [document for document in row if document >= 0]
        assert len(set(there)) == len(there) == min(count, [4, 1, 0][query])
        assert set(there) <= {0: set(LIST), 1: {3}, 2: set()}[query]
        assert row[: len(there)] == there
    selector.observe(batch, candidates, STEP, training, np.random.default_rng(0))
    assert all(torch.isfinite(parameter).all() for parameter in selector.generator.parameters())


def test_no_candidate_at_all_changes_nothing(make):
    selector, training, function, batch = make(rows=[2, 2])
    candidates = selector.select(batch, function, 3, training, np.random.default_rng(0))
    assert (candidates.documents == -1).all()
    selector.observe(batch, candidates, STEP, training, np.random.default_rng(0))
    (scores,) = selector.generator.parameters()
    assert not scores.any()


def test_a_ranker_that_diverged_does_not_touch_the_generator(make):
    selector, training, function, batch = make()
    candidates = selector.select(batch, function, 2, training, np.random.default_rng(0))
    training.score = lambda queries, documents: np.full(documents.shape, np.nan, np.float32)
    selector.observe(batch, candidates, STEP, training, np.random.default_rng(0))
    (scores,) = selector.generator.parameters()
    assert not scores.any()


def test_it_starts_as_a_copy_of_the_ranker(tiny_training):
    training = tiny_training()
    selector = Adversarial()
    selector.start_run({}, training)
    assert equal(weights(training.ranker), weights(selector.generator))
    shared = {id(parameter) for parameter in training.ranker.parameters()}
    assert not shared & {id(parameter) for parameter in selector.generator.parameters()}
