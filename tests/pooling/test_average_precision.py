from dataclasses import replace
from itertools import pairwise, permutations

import numpy as np
import polars as pl
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pyrite.pooling.average_precision import PoolEvaluation
from pyrite.pooling.correlation import kendall_tau, largest_drops, ranks, tau_aps
from pyrite.pooling.judging_order import JudgingOrder
from pyrite.pooling.pool import Pool
from pyrite.pooling.ranking_quality import RankingQuality
from pyrite.ranking.errors import BadInput
from tests.pooling.made_up import in_order_of_ids, random_order


def as_results(ranked: np.ndarray) -> dict[str, float]:
    """A ranking as pytrec_eval takes it; what is not in the pool has an id that the qrels lack."""
    ids = [str(document) if document >= 0 else f"outside{place}" for place, document in enumerate(ranked.tolist())]
    return {document: -float(place) for place, document in enumerate(ids)}


def by_trec_eval(pool: Pool, order: JudgingOrder, spent: np.ndarray) -> dict[str, np.ndarray]:
    """[topics, runs] of `map` and `infAP` with the judged documents; those still to judge have grade -1 for infAP."""
    qrels: dict[str, dict[str, dict[str, int]]] = {"map": {}, "infAP": {}}
    for topic, documents, count in zip(pool.topics, order.documents, spent, strict=True):
        known = {str(d): int(topic.grades[d] >= pool.relevant_from) for d in documents[:count].tolist()}
        qrels["map"][topic.name] = known
        qrels["infAP"][topic.name] = {str(d): -1 for d in range(topic.pool.size)} | known
    values = {measure: np.zeros((len(pool.topics), len(pool.runs))) for measure in qrels}
    for measure, of_measure in qrels.items():
        evaluator = pytrec_eval.RelevanceEvaluator(of_measure, {measure})
        for run in range(len(pool.runs)):
            results = evaluator.evaluate({topic.name: as_results(topic.pool.ranking[run]) for topic in pool.topics})
            for number, topic in enumerate(pool.topics):
                values[measure][number, run] = results[topic.name][measure]
    return values


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_trec_eval(random_pool, seed):
    pool = random_pool(np.random.default_rng(seed))
    order, evaluation = random_order(pool, np.random.default_rng(seed)), PoolEvaluation(pool)
    budgets = (1, 3, 10, 20, 100)
    values = evaluation.spent(order, order.spent_at(budgets))
    for point, budget in enumerate(budgets):
        expected = by_trec_eval(pool, order, order.spent(budget))
        np.testing.assert_allclose(values.ap[point], expected["map"], rtol=0, atol=1e-12)
        np.testing.assert_allclose(values.inf_ap[point], expected["infAP"], rtol=0, atol=1e-12)
    np.testing.assert_allclose(evaluation.full(), values.ap[-1], rtol=0, atol=1e-12)  # all are judged by now


def test_infap_of_uniform_samples_is_nearly_unbiased_and_of_relevant_first_is_not(random_pool):
    pool = random_pool(np.random.default_rng(8), topics=20, documents=60, depth=30)
    evaluation = PoolEvaluation(pool)
    full = evaluation.full().mean()
    samples = [random_order(pool, np.random.default_rng(seed)) for seed in range(100)]
    values = [evaluation.spent(order, order.spent_at([30])) for order in samples]
    assert np.mean([of_sample.inf_ap.mean() for of_sample in values]) == pytest.approx(full, abs=0.03)
    assert np.mean([of_sample.ap.mean() for of_sample in values]) < full - 0.1
    relevant_first = [np.argsort(~pool.is_relevant(topic), kind="stable").astype(np.int32) for topic in pool.topics]
    oracle = JudgingOrder(relevant_first)
    assert evaluation.spent(oracle, oracle.spent_at([10])).inf_ap.mean() > full + 0.1


def test_grades_below_relevant_are_judged_and_not_relevant(pool_of):
    rankings, order = [[[0, 1, 2]]], JudgingOrder([np.array([0, 1, 2], np.int32)])
    graded = PoolEvaluation(pool_of(rankings, [[1, 3, 2]], relevant_from=2))
    binary = PoolEvaluation(pool_of(rankings, [[0, 1, 1]]))
    one, other = (evaluation.spent(order, np.arange(4)[:, None]) for evaluation in (graded, binary))
    assert (one.ap == other.ap).all()
    assert (one.inf_ap == other.inf_ap).all()


def test_several_points_at_once_are_each_as_if_alone(random_pool):
    rng = np.random.default_rng(6)
    pool = random_pool(rng, topics=3)
    evaluation = PoolEvaluation(pool)
    order = random_order(pool, rng)
    points = rng.integers(0, 40, (5, 3))  # in no order, and beyond some topics' pools
    values = evaluation.spent(order, points)
    for point, spent in enumerate(points):
        alone = evaluation.spent(order, np.minimum(spent, order.sizes)[None, :])
        for together, by_itself in zip(values, alone, strict=True):
            assert (together[point] == by_itself[0]).all()


TIED = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=6)


def tau_ap(full: np.ndarray, partial: np.ndarray) -> float:
    [tau] = tau_aps(full, partial[None])
    return tau


def largest_drop(full: np.ndarray, partial: np.ndarray) -> tuple[float, int | None]:
    [drop] = largest_drops(full, partial[None])
    return drop


def tau_ap_by_definition(full: np.ndarray, partial: np.ndarray) -> float:
    """2/(n-1) Σ C(i)/(i-1) - 1 over the ranks of `partial`; neither has ties."""
    order = np.argsort(-partial)
    shares = [np.mean(full[order[:place]] > full[order[place]]) for place in range(1, len(order))]
    return 2 * float(np.mean(shares)) - 1


@given(TIED)
def test_kendall_is_scipys(pairs):
    a, b = np.array(pairs, float).T
    assert kendall_tau(a, b) == pytest.approx(stats.kendalltau(a, b).statistic, abs=1e-12, nan_ok=True)


@given(st.permutations(range(7)))
def test_tau_ap_without_ties_is_the_published_formula(order):
    full, partial = np.arange(7.0), np.array(order, float)
    assert tau_ap(full, partial) == pytest.approx(tau_ap_by_definition(full, partial))


@given(TIED)
def test_tau_ap_is_the_mean_over_all_orders_of_the_estimates_ties(pairs):
    full, partial = np.array(pairs, float).T
    signed, decided = [], []
    for order in permutations(range(len(full))):
        if all(partial[a] >= partial[b] for a, b in pairwise(order)):
            by_rank = full[list(order)]
            signs = [np.sign(by_rank[:place] - by_rank[place]) for place in range(1, len(order))]
            signed.append(sum(float(of_run.mean()) for of_run in signs))
            decided.append(sum(float((of_run != 0).mean()) for of_run in signs))
    expected = sum(signed) / sum(decided) if sum(decided) else float("nan")
    assert tau_ap(full, partial) == pytest.approx(expected, abs=1e-12, nan_ok=True)


@given(TIED)
def test_an_equal_evaluation_has_one_and_ties_of_all_have_none(pairs):
    scores = np.array(pairs, float).T[0]
    if len(set(scores)) > 1:
        assert tau_ap(scores, scores) == pytest.approx(1)
        assert tau_ap(scores, np.zeros(len(scores))) == 0
    assert np.isnan(tau_ap(np.zeros(len(scores)), scores))
    assert np.isnan(kendall_tau(np.zeros(len(scores)), scores))
    assert largest_drop(scores, scores) == (0, None)


def test_sums_in_another_order_are_ties():
    a, b = 0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1
    assert a != b
    assert ranks(np.array([a, b, 0.0])).tolist() == [1.5, 1.5, 3]


def test_largest_drop():
    full = np.array([0.9, 0.5, 0.4, 0.3])
    assert largest_drop(full, np.array([0.2, 0.5, 0.4, 0.3])) == (3, 0)
    assert largest_drop(full, np.array([0.9, 0.4, 0.4, 0.5])) == (1.5, 1)  # ranks 1, 3.5, 3.5, 2
    assert largest_drop(full, np.array([0.9, 0.4, 0.5, 0.3])) == (1, 1)
    assert largest_drop(full, full / 2) == (0, None)


# Two topics, three runs; relevant are 0 and 1 in both. Full MAP: run0 1, run1 (1/2 + 2/3) / 2, run2 0.
RANKINGS = [[[0, 1, 2], [2, 0, 1], [3, 4, 2]]] * 2
GRADES = [[1, 1, 0, 0, 0]] * 2


def test_ranking_quality_by_hand(pool_of):
    pool = pool_of(RANKINGS, GRADES, outside=1)
    # First two that are not relevant, so all runs have 0; then those that are.
    order = JudgingOrder([np.array([2, 3, 0, 1, 4], np.int32)] * 2)
    table = RankingQuality(pool).table(order, [2, 3, 100])
    assert table["budget"].to_list() == [2, 3, 100]
    assert table["judged"].to_list() == [2, 3, 5]
    assert table["found"].to_list() == [0, 1, 2]
    assert table["recall"].to_list() == pytest.approx([0, 1 / 3, 2 / 3])
    assert np.isnan(table["tau"][0])
    assert table["tau_ap"].to_list() == pytest.approx([0, 1, 1])
    assert table["tau"][1:].to_list() == pytest.approx([1, 1])
    assert table["drop"].to_list() == [1, 0, 0]  # all tie at rank 2
    assert table["dropped"].to_list() == ["run0", None, None]
    full = np.array([2 / 3, (1 / 2 + 2 / 3) / 3, 0])  # one of three relevant is outside the pool
    assert table["bias"].to_list() == pytest.approx(
        [-full.mean(), (1 + 1 / 2) / 3 - full.mean(), (1 + (1 / 2 + 2 / 3) / 2) / 3 - full.mean()]
    )


def test_topics_differ_in_what_is_judged(pool_of):
    pool = pool_of(RANKINGS, [[1, 1, 0, 0, 0], [0, 0, 0, 0, 0]])
    order = in_order_of_ids(pool)
    [row] = RankingQuality(pool).at(order, np.array([[1, 4]]))
    assert (row["judged"], row["found"]) == (2.5, 0.5)
    assert row["recall"] == row["lowest_recall"] == 0.5  # the second topic has nothing to recall


def test_a_shared_budget_is_counted_by_its_turns(pool_of):
    pool = pool_of(RANKINGS, GRADES)
    turns = np.array([0, 0, 0, 1, 0, 0, 1, 1, 1, 1], np.int32)
    table = RankingQuality(pool).table(replace(in_order_of_ids(pool), turns=turns), [2])
    assert table["judged"].to_list() == [2]
    assert table["recall"].to_list() == [(1 + 1 / 2) / 2]


def test_no_relevant_document_at_all_and_budgets_below_one(pool_of):
    pool = pool_of(RANKINGS, [[0] * 5] * 2)
    table = RankingQuality(pool).table(in_order_of_ids(pool), [1, 5])
    assert table["recall"].is_nan().all()
    assert table["tau"].is_nan().all()
    assert table["dropped"].dtype == pl.String
    assert table["dropped"].null_count() == 2
    with pytest.raises(BadInput, match="budget of 0"):
        RankingQuality(pool).table(in_order_of_ids(pool), [5, 0])


def test_everything_judged_is_the_truth(random_pool):
    pool = random_pool(np.random.default_rng(2), topics=6, runs=12)
    order = in_order_of_ids(pool)
    first, again = (RankingQuality(pool).table(order, [1, 5, 10, 1000]) for _ in range(2))
    assert first.equals(again)
    last = first.row(-1, named=True)
    assert last["recall"] == 1
    assert (last["tau"], last["drop"], last["bias"]) == (pytest.approx(1), 0, pytest.approx(0))
    assert last["tau_ap"] == pytest.approx(1)
    assert last["inf_bias"] == pytest.approx(0, abs=1e-4)  # infAP's ε
