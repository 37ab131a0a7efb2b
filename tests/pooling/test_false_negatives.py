import numpy as np
import pytest
from scipy.stats import t

from pyrite.pooling.estimates import share_interval
from pyrite.pooling.false_negatives import RecordedQueries, draw, rate, sizes_of


def test_sizes_treat_policies_alike():
    assert sizes_of([np.array([1.0, 3.0]), np.array([100.0, 0.0])]).tolist() == [0.625, 0.375]


def test_everything_is_drawn_for_certain_where_there_is_room():
    drawn = draw(np.array([1.0, 2.0]), 5, np.random.default_rng(0))
    assert drawn.inclusion.tolist() == [1, 1]
    told = rate(np.array([1.0, 3.0]), drawn.inclusion, np.array([1.0, 0.0]))
    assert (told.rate, told.low, told.high, told.judged) == (0.25, 0.25, 0.25, 2)


def test_a_larger_sample_keeps_the_smaller():
    sizes = np.random.default_rng(1).random(50)
    small, large = (draw(sizes, count, np.random.default_rng(2)).order[:count].tolist() for count in (5, 20))
    assert large[:5] == small


def test_rates_are_unbiased_and_intervals_hold_the_truth():
    rng, count = np.random.default_rng(4), 400
    exposures = [rng.integers(0, 6, count).astype(float), rng.integers(0, 2, count).astype(float) * 4]
    relevant = (rng.random(count) < 0.15).astype(float)
    truth = [float((shown * relevant).sum() / shown.sum()) for shown in exposures]
    rates, held = [[], []], [[], []]
    for seed in range(300):
        drawn = draw(sizes_of(exposures), 80, np.random.default_rng(seed))
        heard = np.where(np.isin(np.arange(count), drawn.order[:80]), relevant, np.nan)
        for policy, shown in enumerate(exposures):
            told = rate(shown, drawn.inclusion, heard)
            rates[policy].append(told.rate)
            held[policy].append(told.low <= truth[policy] <= told.high)
    for policy in range(2):
        error = np.std(rates[policy]) / np.sqrt(300)
        assert abs(np.mean(rates[policy]) - truth[policy]) < 4 * error
        assert 0.91 < np.mean(held[policy]) < 1
        assert np.std(rates[policy]) > 0.01


def test_no_relevant_one_found_does_not_say_that_there_is_none():
    told = rate(np.ones(100), np.full(100, 0.2), np.where(np.arange(100) < 20, 0.0, np.nan))
    assert told.rate == 0
    assert 0.1 < told.high < 0.2  # 20 draws: 1 - .025^(1/20)
    assert told.high == pytest.approx(1 - 0.025 ** (1 / 20))
    assert rate(np.ones(3), np.ones(3), np.full(3, np.nan)).rate is None


@pytest.mark.by_day(2)
@pytest.mark.parametrize("prevalence", [0.005, 0.02, 0.1])
@pytest.mark.parametrize("budget", [100, 300])
def test_intervals_hold_the_truth_also_if_little_is_relevant_and_few_are_judged(prevalence, budget):
    # One policy repeats few negatives, the other shows many once: the latter's few relevant ones have uneven weights.
    rng = np.random.default_rng(3)
    repeating = np.where(rng.random(3000) < 0.3, rng.geometric(0.2, 3000), 0).astype(float)
    flat = (rng.random(3000) < 0.9).astype(float)
    shown = repeating + flat > 0
    exposures = [repeating[shown], flat[shown]]
    relevant = (rng.random(shown.sum()) < prevalence).astype(float)
    held = np.zeros((200, 2))
    for seed in range(200):
        drawn = draw(sizes_of(exposures), budget, np.random.default_rng(seed))
        judged = np.where(np.isin(np.arange(len(relevant)), drawn.order[:budget]), relevant, np.nan)
        for policy, shares in enumerate(exposures):
            estimated, truth = rate(shares, drawn.inclusion, judged), (shares * relevant).sum() / shares.sum()
            held[seed, policy] = estimated.low - 1e-12 <= truth <= estimated.high + 1e-12
    assert held.mean(0).min() >= 0.93


def test_recorded_queries_are_a_sample_too():
    """Of four queries with two negatives each, both negatives of one are relevant, or none of any."""
    recorded, certain = RecordedQueries(0.25, np.repeat(np.arange(4), 2)), np.ones(8)
    wider = (t.ppf(0.975, 7) / t.ppf(0.975, 3)) ** 2
    # Sums of the queries 3/16 and three times -1/16: variance 3/4 · 4/3 · 12/256, as of four draws.
    told = rate(certain, certain, np.array([1.0, 1, 0, 0, 0, 0, 0, 0]), recorded)
    assert told[:3] == pytest.approx((0.25, *share_interval(wider, 4 * wider)))
    # A draw per query by 3/4, and one per negative by 1/4.
    told = rate(certain, certain, np.zeros(8), recorded)
    assert told[:3] == pytest.approx((0, *share_interval(0, wider / (0.75 / 4 + 0.25 / 8))))
    assert rate(np.ones(2), np.ones(2), np.array([1.0, 0]), RecordedQueries(0.1, np.zeros(2, int))).high > 0.9


@pytest.mark.parametrize(("share", "budget"), [(0.05, 200), (0.05, 2000), (0.01, 2000)])
def test_intervals_hold_the_rate_of_all_queries_if_a_share_is_recorded(share, budget):
    rng, queries, held = np.random.default_rng(5), 1000, []
    for _ in range(200):
        relevant = (rng.random((queries, 8)) < rng.beta(0.5, 4.5, queries)[:, None]).astype(float)
        of = np.repeat(np.arange(queries), 8)[np.repeat(rng.random(queries) < share, 8)]
        known, shown = relevant[np.unique(of)].ravel(), np.ones(len(of))
        drawn = draw(shown, budget, rng)
        known[drawn.order[budget:]] = np.nan
        told = rate(shown, drawn.inclusion, known, RecordedQueries(share, of))
        held.append(told.low <= relevant.mean() <= told.high)
    assert np.mean(held) >= 0.93
