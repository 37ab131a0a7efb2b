from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor, nn

from pyrite.ranking.errors import BadInput
from pyrite.ranking.pair_scores import PairScores
from pyrite.ranking.rankers.ranker import Ranker
from pyrite.ranking.texts import Texts
from pyrite.ranking.training import Batch, UpdateResult
from pyrite.sampling.filtered import FilteredFunction
from pyrite.sampling.relevant_pairs import RelevantPairs
from pyrite.sampling.retrieval.function import CandidateBatch
from pyrite.sampling.retrieval.random import Random
from pyrite.sampling.selection.adversarial import Adversarial, GeneratorDraw
from pyrite.sampling.selection.ahns import AHNS
from pyrite.sampling.selection.dynamic import Dynamic
from pyrite.sampling.selection.error_reduction import ErrorReduction
from pyrite.sampling.selection.from_margin import FromMargin
from pyrite.sampling.selection.margin_balanced import MarginBalanced
from pyrite.sampling.selection.selector import Selector, pick
from pyrite.sampling.selection.shared import Shared
from pyrite.sampling.selection.simans import SimANS
from pyrite.sampling.selection.top import Top
from pyrite.sampling.selection.tri_sampler import TriSampler
from pyrite.sampling.selection.uniform import Uniform
from pyrite.sampling.selection.window import Window
from tests.ranking.trained import Bag, equal, weights
from tests.sampling.batches import listed, prepared

LIST = [10, 11, 12, 13, 14, 15]
SCORE = {10: 0.1, 11: 3.0, 12: -5.0, 13: 2.0, 14: 7.0, 15: 1.0, 0: 0.0}
BY_SCORE = [14, 11, 13, 15, 10, 12]


class Stub:
    """A training that scores by `SCORE` and reads P(relevant) = σ(score)."""

    def score(self, queries: Any, documents: np.ndarray) -> np.ndarray:
        return np.array([[SCORE.get(int(d), -np.inf) for d in row] for row in documents], np.float32)

    def probabilities(self, queries: Any, documents: np.ndarray) -> np.ndarray:
        assert (documents[:, 0] == 0).all()  # the positive
        return (1 / (1 + np.exp(-self.score(queries, documents)))).astype(np.float32)


def select(selector: Selector, count: int, rows: int = 1, seed: int = 0, length: int = 6) -> CandidateBatch:
    """From lists of which every second is empty but for one document."""
    function = listed([LIST[:length], LIST[:1]])
    batch = Batch(np.zeros(rows, np.int64), np.zeros(rows, np.int32))
    return selector.select(batch, function, count, Stub(), np.random.default_rng(seed))


def frequencies(candidates: CandidateBatch, order: list[int]) -> np.ndarray:
    return np.array([np.count_nonzero(candidates.documents == document) for document in order])


ALL = [Uniform(), Top(), Dynamic(0.5, 4), Dynamic(0, 4), Dynamic(1, 9), ErrorReduction(4), ErrorReduction(9, "printed")]


@pytest.mark.by_day(10)
@pytest.mark.parametrize("selector", ALL)
@pytest.mark.parametrize("count", [1, 3, 6, 8])
def test_distinct_documents_of_the_list_and_as_many_as_there_are(selector, count):
    candidates = select(selector, count, rows=40)
    assert candidates.documents.shape[0] == 40
    assert candidates.documents.shape[1] <= max(count, 6)
    for row in candidates.documents[:, :count].tolist():
        there = [document for document in row if document >= 0]
        assert len(set(there)) == len(there) == min(count, 6)
        assert set(there) <= set(LIST)
        assert row[: len(there)] == there
    assert candidates.documents.shape == candidates.scores.shape
    again = select(selector, count, rows=40)
    np.testing.assert_array_equal(again.documents, candidates.documents)


@pytest.mark.parametrize("selector", [Uniform(), SimANS(0, 3.0, 6)])
def test_uniform_is_uniform(selector):
    assert chisquare(frequencies(select(selector, 1, 12_000), LIST)).pvalue > 0.01


@pytest.mark.parametrize(
    ("selector", "head"),
    [
        (Top(), [10, 11, 12]),
        (Window(2, 5, pick="first"), [11, 12, 13]),
        (Dynamic(0, 6), BY_SCORE[:3]),
        (Dynamic(1e-300, 6), BY_SCORE[:3]),  # which does not overflow
        (SimANS(1, float("inf"), 6), BY_SCORE[:3]),
    ],
)
def test_the_head_of_the_list_or_the_rankers_top_with_the_functions_scores(selector, head):
    candidates = select(selector, 3, 5)
    assert candidates.documents.tolist() == [head] * 5
    assert candidates.scores.tolist() == [[10 - document for document in head]] * 5


def test_dynamic_0_takes_the_top_of_what_was_drawn():
    """Of m uniform draws from n the document at rank k is the best with probability C(n−1−k, m−1) / C(n, m)."""
    counts = frequencies(select(Dynamic(0, 2), 1, 9000), BY_SCORE)
    expected = np.array([5, 4, 3, 2, 1, 0]) / 15 * 9000
    assert counts[5] == 0
    assert chisquare(counts[:5], expected[:5]).pvalue > 0.01


@pytest.mark.parametrize("lam", [0.3, 0.5, 0.8, 1])
def test_dynamic_falls_geometrically_with_the_rankers_rank(lam):
    share = lam ** np.arange(6)
    expected = share / share.sum() * 20_000
    counts = frequencies(select(Dynamic(lam, 6), 1, 20_000, seed=1), BY_SCORE)
    assert chisquare(counts, expected).pvalue > 0.01


def test_dynamic_draws_the_second_from_what_the_first_left():
    candidates = select(Dynamic(0.5, 3), 2, 30_000, length=3)
    share = np.array([4, 2, 1]) / 7
    rank = {11: 0, 10: 1, 12: 2}  # of these three, by the ranker's score
    for first in range(3):
        for second in range(3):
            pairs = sum(rank[a] == first and rank[b] == second for a, b in candidates.documents.tolist())
            probability = 0 if first == second else share[first] * share[second] / (1 - share[first])
            assert pairs / 30_000 == pytest.approx(probability, abs=0.01)


@pytest.mark.parametrize("probability", ["objective", "pair"])
def test_error_reduction_takes_the_largest_entropy_term(probability):
    """−P·log P is highest at P = 1/e, which is a score of log(1/(e − 1)) = −0.54.

    By pairs that is the score less the positive's, which is 0 here.
    """
    chance = {document: 1 / (1 + np.exp(-SCORE[document])) for document in LIST}
    by_entropy = sorted(LIST, key=lambda d: chance[d] * np.log(chance[d]))
    assert by_entropy[0] == 10
    assert select(ErrorReduction(6, "entropy", probability), 4, 2).documents.tolist() == [by_entropy[:4]] * 2
    printed = select(ErrorReduction(6, "printed", probability), 4, 2)
    assert printed.documents.tolist() == [by_entropy[::-1][:4]] * 2
    assert printed.documents[0, 0] == 14


@pytest.mark.parametrize(
    ("probability", "method", "known"),
    [
        ("objective", "probabilities", [0.0, 1.0, 0.5, 0.0, 1.0, 0.9]),
        ("pair", "score", [-5000.0, 5000.0, -0.5, -800.0, 900.0, 1.0]),
    ],
)
def test_error_reduction_takes_probabilities_of_0_and_1_and_leads_of_any_size(monkeypatch, probability, method, known):
    of = np.array([0.0] * 10 + known, np.float32)  # the positive is 0
    monkeypatch.setattr(Stub, method, lambda self, queries, documents: of[documents])
    assert select(ErrorReduction(6, probability=probability), 2).documents.tolist() == [[12, 15]]


def test_pick_puts_what_is_not_there_last_and_keeps_ties_in_order():
    candidates = CandidateBatch(np.array([[5, -1, 7, 8]], np.int32), np.array([[1, -np.inf, 2, 3]], np.float32))
    picked = pick(candidates, np.array([[0.5, 9, 0.5, 1]]), 4)
    assert picked.documents.tolist() == [[8, 5, 7, -1]]
    assert picked.scores.tolist() == [[3, 1, 2, -np.inf]]


@pytest.mark.parametrize(
    ("window", "there"),
    [
        (Window(1, 6), [10, 11, 12, 13, 14, 15]),
        (Window(2, 4), [11, 12, 13]),
        (Window(3, 9), [12, 13, 14, 15]),
        (Window(1, 6, ceiling=-2), [12, 13, 14, 15]),  # the list's scores are 0, −1, …
        (Window(7, 9), []),
    ],
)
def test_a_window_of_ranks_and_scores(window, there):
    drawn = select(window, 6, 50).documents
    assert [sorted(d for d in row if d >= 0) for row in drawn.tolist()] == [there] * 50
    one = frequencies(select(window, 1, 6000), there)
    assert one == pytest.approx([6000 / max(len(there), 1)] * len(there), rel=0.15)


def test_simans_draws_by_the_distance_to_the_positive():
    """p ∝ exp(−a·(s − s⁺ − b)²), the positive's score being 0."""
    for a, b in ((1.0, 0.0), (0.3, 1.5)):
        weights = np.array([np.exp(-a * (SCORE[document] - b) ** 2) for document in LIST])
        expected = 30_000 * weights / weights.sum()
        drawn = frequencies(select(SimANS(a, b, 6), 1, 30_000), LIST)
        assert drawn == pytest.approx(expected, rel=0.06, abs=12)


def test_ahns_gives_softer_negatives_to_higher_positives(monkeypatch):
    """β·(s⁺ + α)^(p + 1) with α = 1, β = 3 and p = −2: 3 for a positive of 0, 1 for one of 2, 0.1 for one of 29."""
    for positive, order in ((0.0, [11, 13, 15]), (2.0, [15, 10, 13]), (29.0, [10, 15, 13]), (-9.0, [14, 11, 13])):
        monkeypatch.setitem(SCORE, 0, positive)
        assert select(AHNS(1, 3, -2, 6), 3, 2).documents.tolist() == [order] * 2


def test_from_margin_picks_a_quantile_of_the_batches_margins(monkeypatch):
    monkeypatch.setitem(SCORE, 0, 2.0)  # the margins of BY_SCORE: −5 −1 0 1 1.9 7
    for quantile, first in ((0, 14), (0.4, 13), (0.6, 15), (1, 12)):
        assert select(FromMargin(quantile, 6), 1, 3).documents.tolist() == [[first]] * 3


@pytest.mark.parametrize("count", [1, 2, 5, 8, 100])
def test_all_queries_are_shown_the_same_but_for_what_is_relevant(count, tiny_training):
    training = tiny_training()
    relevant = training.encoded.judgements.relevant()
    function = FilteredFunction(prepared(Random(), training.encoded), RelevantPairs(training.encoded))
    for seed in range(20):
        batch = training.next_batch()
        documents = Shared().select(batch, function, count, training, np.random.default_rng(seed)).documents
        assert len(documents) == len(batch)
        assert documents.shape[1] == count if count <= 8 else documents.shape[1] <= 12  # no more than there are
        pool = {int(d) for d in documents.ravel() if d >= 0}
        for query, row in zip(batch.queries, documents, strict=True):
            own = set(relevant.of(query)[0].tolist())
            assert {int(d) for d in row if d >= 0} == pool - own
            assert len(set(row[row >= 0])) == (row >= 0).sum()


VECTORS = np.array([[1, 0], [1, 0], [0.5, 0.75**0.5], [0.5, -(0.75**0.5)]], np.float32)
"""The positive, its twin, and two documents that score the same with the query, one near and one far from both."""


def test_it_prefers_equal_sides():
    """The query is 60° from the positive. 1 is the positive's twin, 2 the query itself, and 3 is opposite."""
    query = np.array([0.5, 0.75**0.5], np.float32)
    ranker = Bag(words=5, dimension=2)  # document d is the word d + 1
    ranker.table.data[1:] = torch.from_numpy(VECTORS)
    training = SimpleNamespace(
        ranker=ranker,
        encoded=SimpleNamespace(documents=Texts.of([[1], [2], [3], [4]])),
        score=lambda queries, documents: (VECTORS[documents] @ query).astype(np.float32),
    )
    function = listed([[1, 2, 3]])
    batch = Batch(np.zeros(9000, np.int64), np.zeros(9000, np.int32))
    picked = TriSampler(4.0, 3).select(batch, function, 1, training, np.random.default_rng(0)).documents
    # The side is ½. Sides to query and positive: 1 has ½ and 1; 2 has 1 and ½; 3 has −½ and ½.
    weights = np.exp(-4.0 * np.array([0.25, 0.25, 1.0]))
    counts = [np.count_nonzero(picked == document) for document in (1, 2, 3)]
    assert counts == pytest.approx(9000 * weights / weights.sum(), abs=100)


BATCH = Batch(np.zeros(6000, np.int64), np.full(6000, 9, np.int32))


def training(scores: dict[int, float]) -> Any:
    documents, values = np.array(list(scores), int), np.array([*scores.values()])
    return SimpleNamespace(teacher=PairScores.of(np.zeros(len(scores), int), documents, values, 10))


def test_bins_are_drawn_evenly_and_documents_within_them():
    """Seven documents far below the positive and one near it: half of the draws are of that one."""
    scores = {place: float(place) / 100 for place in range(7)} | {7: 5.0}
    one = MarginBalanced(bins=2, candidates=8)
    picked = one.select(BATCH, listed([range(8)]), 1, training(scores), np.random.default_rng(0))
    counts = np.bincount(picked.documents[:, 0], minlength=8) / len(BATCH)
    assert counts[7] == pytest.approx(0.5, abs=0.03)
    assert counts[:7] == pytest.approx(np.full(7, 1 / 14), abs=0.02)


def test_what_the_teacher_does_not_know_is_a_bin_of_its_own():
    one = MarginBalanced(bins=2, candidates=4)
    picked = one.select(BATCH, listed([range(4)]), 1, training({0: 1.0, 1: 9.0}), np.random.default_rng(0))
    counts = np.bincount(picked.documents[:, 0], minlength=4) / len(BATCH)
    assert counts == pytest.approx([1 / 3, 1 / 3, 1 / 6, 1 / 6], abs=0.03)
    nothing = one.select(BATCH, listed([range(4)]), 4, training({}), np.random.default_rng(0))
    assert (np.sort(nothing.documents, axis=1) == np.arange(4)).all()
    # Of a list with empty places too.
    short = one.select(
        BATCH, listed([[0, 1, 2, 3, -1, -1, -1, -1]]), 1, training({0: 1.0, 1: 9.0}), np.random.default_rng(0)
    )
    counts = np.bincount(short.documents[:, 0], minlength=4) / len(BATCH)
    assert counts == pytest.approx([1 / 3, 1 / 3, 1 / 6, 1 / 6], abs=0.03)


@pytest.mark.parametrize(
    ("selector", "says"), [(TriSampler, "no vector per document"), (MarginBalanced, "there is no teacher")]
)
def test_what_a_selector_needs_of_a_training(selector, says):
    with pytest.raises(BadInput, match=says):
        selector().start_run({}, SimpleNamespace(ranker=object(), teacher=None))
    with pytest.raises(BadInput, match="last is 4"):
        Window(first=5, last=4)


STEP = UpdateResult(0.0, 0.0, np.zeros((1, 1), np.float32))
FOUR = [1, 2, 3, 4]
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
        function = listed([FOUR, [3], []])
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
        assert set(there) <= {0: set(FOUR), 1: {3}, 2: set()}[query]
        assert row[: len(there)] == there
    selector.observe(batch, candidates, STEP, training, np.random.default_rng(0))
    assert all(torch.isfinite(parameter).all() for parameter in selector.generator.parameters())


@pytest.mark.parametrize("diverged", [False, True])
def test_neither_empty_lists_nor_a_ranker_that_diverged_touch_the_generator(make, diverged):
    selector, training, function, batch = make(rows=[0] if diverged else [2, 2])
    candidates = selector.select(batch, function, 3, training, np.random.default_rng(0))
    assert (candidates.documents == -1).all() == (not diverged)
    if diverged:
        training.score = lambda queries, documents: np.full(documents.shape, np.nan, np.float32)
    selector.observe(batch, candidates, STEP, training, np.random.default_rng(0))
    (scores,) = selector.generator.parameters()
    assert not scores.any()


def test_an_adversary_starts_as_a_copy_of_the_ranker(tiny_training):
    training = tiny_training()
    selector = Adversarial()
    selector.start_run({}, training)
    assert equal(weights(training.ranker), weights(selector.generator))
    shared = {id(parameter) for parameter in training.ranker.parameters()}
    assert not shared & {id(parameter) for parameter in selector.generator.parameters()}
