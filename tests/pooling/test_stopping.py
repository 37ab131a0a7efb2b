from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom

from pyrite.pooling.certified_recall import CertifiedRecall, p_value
from pyrite.pooling.judging_order import JudgingOrder
from pyrite.pooling.knee import Knee
from pyrite.pooling.ranking_quality import RankingQuality
from pyrite.pooling.stopping import FoundNothing, StableRanking, StoppingRule, TargetRecall, savings
from tests.pooling.made_up import random_order

RULES: list[StoppingRule] = [
    FoundNothing(3),
    TargetRecall(0.7, 0.8),
    TargetRecall(0.5, 0.6, "power"),
    StableRanking(0.6, over=2, every=3),
]


def with_shared_budget(order: JudgingOrder, rng: np.random.Generator) -> JudgingOrder:
    return replace(order, turns=rng.permutation(np.repeat(np.arange(len(order.sizes), dtype=np.int32), order.sizes)))


def first(rule: FoundNothing | TargetRecall, relevant: list[int]) -> int | None:
    held = rule.holds(np.array(relevant, bool))
    return int(held.argmax()) + 1 if held.any() else None


def test_found_nothing():
    rule = FoundNothing(3)
    assert first(rule, [1, 0, 0, 1, 0, 0, 0, 1]) == 7
    assert first(rule, [0, 0, 0, 1]) == 3
    assert first(rule, [0, 0, 1, 0, 0]) is None
    assert first(rule, []) is None


def test_target_recall_reaches_it_in_random_orders():
    """Where the rate is constant, that takes the target's share of the pool, whichever the curve."""
    rng = np.random.default_rng(4)
    for curve in ("exponential", "power"):
        rule, recalls = TargetRecall(0.8, 0.95, curve), []
        for _ in range(60):
            relevant = rng.permutation(np.arange(1000) < 100)
            stop = first(rule, relevant)
            recalls.append(relevant[:stop].mean() * stop / 100)
        assert np.mean(np.array(recalls) >= 0.8) >= 0.9
        assert np.mean(recalls) < 0.95


def test_target_recall_stops_early_in_good_orders():
    relevant = [1] * 100 + [0] * 900
    exponential, power = (first(TargetRecall(0.9, 0.95, curve), relevant) for curve in ("exponential", "power"))
    assert 100 < exponential < 300 < power < 1000
    assert first(TargetRecall(0.8), relevant) < first(TargetRecall(0.9), relevant) < first(TargetRecall(0.95), relevant)
    assert first(TargetRecall(0.9, 0.5), relevant) < first(TargetRecall(0.9, 0.99), relevant)


def test_target_recall_stops_where_the_rest_is_too_small_to_matter():
    assert first(TargetRecall(0.9, 0.99), [1] * 30) == 27  # 3 more would be a tenth of 30
    assert first(TargetRecall(0.9), [0] * 30) is None
    assert first(TargetRecall(0.9), []) is None


def test_the_lowest_target_is_reached_by_the_first_relevant_document():
    assert TargetRecall(1e-300).first(np.array([False, False, True, False, True])) == 3


def test_stable_ranking(pool_of):
    rankings = [[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]]
    pool = pool_of(rankings, [[1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0]])
    # Nothing; then run0 leads; then run1 is second, and the rest changes nothing.
    order = JudgingOrder([np.array([1, 0, 5, 10, 2, 3, 4, 6, 7, 8, 9, 11], np.int32)])
    assert StableRanking(1, over=1, every=1).stops(pool, order).tolist() == [4]
    assert StableRanking(1, over=3, every=1).stops(pool, order).tolist() == [6]
    assert StableRanking(1, over=1, every=2).stops(pool, order).tolist() == [6]
    assert StableRanking(1, over=20, every=1).stops(pool, order).tolist() == [12]
    # Of one leader and the full order τ-b is 2/√(2 · 3) = .816.
    assert StableRanking(0.81, over=1, every=1).stops(pool, order).tolist() == [3]
    assert StableRanking(0.82, over=1, every=1).stops(pool, order).tolist() == [4]


@pytest.mark.by_day(2)
@pytest.mark.parametrize("rule", RULES, ids=str)
@given(seed=st.integers(0, 10_000), shared=st.booleans())
def test_what_is_not_judged_yet_does_not_matter(rule, random_pool, seed, shared):
    rng = np.random.default_rng(seed)
    pool = random_pool(rng)
    order = random_order(pool, rng)
    order = with_shared_budget(order, rng) if shared else order
    stops = rule.stops(pool, order)
    assert (stops >= 1).all()
    topics = []
    for topic, documents, stop in zip(pool.topics, order.documents, stops, strict=True):
        grades = topic.grades.copy()
        grades[documents[stop:]] = rng.integers(0, 2, len(documents) - stop)
        topics.append(replace(topic, grades=grades, relevant=int(grades.sum())))
    assert rule.stops(replace(pool, topics=topics), order).tolist() == stops.tolist()


def test_a_pool_wide_rule_stops_at_a_budget(random_pool):
    rng = np.random.default_rng(1)
    pool = random_pool(rng)
    order = with_shared_budget(random_order(pool, rng), rng)
    stops = StableRanking(0.6, over=2, every=3).stops(pool, order)
    assert any((order.spent(budget) == stops).all() for budget in range(3, 60, 3))


def test_savings(random_pool):
    rng = np.random.default_rng(6)
    pool = random_pool(rng)
    order = random_order(pool, rng)
    table = savings(RankingQuality(pool), order, [*RULES, FoundNothing(1000)])
    assert table["rule"].to_list() == [*map(str, RULES), "nothing in 1000"]
    for row, rule in zip(table[:-1].iter_rows(named=True), RULES, strict=True):
        stops = rule.stops(pool, order)
        found = [pool.is_relevant(t)[d[:s]].sum() for t, d, s in zip(pool.topics, order.documents, stops, strict=True)]
        assert row["judged"] == stops.mean()
        assert row["saved"] == pytest.approx(1 - stops.sum() / pool.size)
        assert row["found"] == np.mean(found)
        assert row["lowest_recall"] == min(f / t.relevant for f, t in zip(found, pool.topics, strict=True))
    never = table.row(-1, named=True)
    assert (never["saved"], never["recall"], never["tau"]) == (0, 1, pytest.approx(1))
    assert table.equals(savings(RankingQuality(pool), order, [*RULES, FoundNothing(1000)]))


@pytest.mark.parametrize("curve", ["exponential", "power"])
@given(
    seed=st.integers(0, 10_000), recall=st.sampled_from([0.5, 0.8, 0.9, 0.99]), sure=st.sampled_from([0.5, 0.9, 0.95])
)
def test_the_first_judgement_to_stop_after_is_the_first_that_holds(curve, seed, recall, sure):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 400))
    relevant = rng.random(size) < rng.uniform(0.0, 0.9) * np.exp(-np.arange(size) / rng.uniform(5, 400))
    rule = TargetRecall(recall, sure, curve)
    held = np.flatnonzero(rule.holds(relevant))
    assert rule.first(relevant) == (held[0] + 1 if len(held) else size)


@pytest.mark.parametrize(("recall", "confidence"), [(0.9, 0.95), (0.5, 0.5), (0.99, 0.99)])
def test_topics_stop_together_where_each_would_alone(random_pool, recall, confidence):
    rng = np.random.default_rng(2)
    pool = random_pool(rng, topics=6, documents=150, depth=60)
    orders = [np.argsort(-topic.grades + rng.random(topic.pool.size)) for topic in pool.topics]
    order = JudgingOrder([documents.astype(np.int32) for documents in orders])
    rule = TargetRecall(recall, confidence)
    for topic, documents, stop in zip(pool.topics, order.documents, rule.stops(pool, order), strict=True):
        assert stop == rule.first(pool.is_relevant(topic)[documents])


def test_the_p_value_by_hand():
    # 9 found before; with 9 known of a recall of .9, 2 more in the rest would be one too many. A sample of 5 of 10.
    assert p_value(9, 0, 5, 10, 0.9) == pytest.approx(float(hypergeom.cdf(0, 10, 2, 5)))
    assert p_value(9, 0, 5, 10, 0.9) == pytest.approx((5 * 4) / (10 * 9))  # neither of two is in the sample
    assert p_value(90, 0, 5, 3, 0.9) == 0.0  # the rest can't hold as many as it would take


def test_the_knee_of_a_curve_that_turns_flat():
    relevant = np.zeros(400, bool)
    relevant[:50] = True
    rule = Knee(ratio=6, ease=0, least=60)
    # All found come first: slope 1 before the knee at 50, 1/(n - 50) behind it; 6 at 56, but not before 60.
    assert rule.first(relevant) == 60
    assert Knee(ratio=6, ease=0, least=0).first(relevant) == 56
    assert Knee(ratio=6, ease=60, least=0).first(relevant) == 66  # ten fewer than 60 found: ratio 16
    assert Knee(ease=0).first(np.zeros(150, bool)) == 150


def test_certified_recall_holds_as_often_as_it_says(pool_of):
    rng, topics, size = np.random.default_rng(2), 150, 300
    likely = np.where(np.arange(size) < 60, 0.5, 0.03)  # a tail that a count of empty judgements cuts off
    pool = pool_of([[list(range(size))]] * topics, (rng.random((topics, size)) < likely).astype(int).tolist())
    order = JudgingOrder([np.arange(size, dtype=np.int32)] * topics)
    hasty = FoundNothing(10)
    quality = RankingQuality(pool)
    table = savings(quality, order, [hasty, CertifiedRecall(0.8, 0.9, first=20, after=hasty)], seed=1)
    reached, saved = table["reached"].to_list(), table["saved"].to_list()
    assert reached[1] >= 0.9 > 0.5
    assert saved[1] > 0.02, "what judges everything certifies nothing"
    assert table["target"].to_list() == [0.9, 0.8]
    again = savings(quality, order, [CertifiedRecall(0.8, 0.9, first=20, after=hasty)], seed=1)
    assert again["judged"][0] == table["judged"][1]
