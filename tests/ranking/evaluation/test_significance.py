import warnings
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrite.ranking.evaluation import significance
from pyrite.ranking.evaluation.anytime import FRACTIONS, confidence_sequence, evidence, p_values
from pyrite.ranking.evaluation.significance import (
    bootstrap_interval,
    effect_size,
    holm,
    kolmogorov_smirnov,
    paired_t_test,
    shaffer,
    sign_test,
    t_test,
)

TESTS = [t_test, kolmogorov_smirnov, effect_size]


@pytest.fixture(autouse=True)
def no_warnings() -> None:
    warnings.simplefilter("error")


def test_t_by_hand():
    # Means 2 and 5, pooled variance 1, so t = -3 / sqrt(2/3) = -3.674 with 4 degrees of freedom.
    # With 4 degrees P(|T| > t) = 1 - s(1 + (1 - s²)/2), s = t/sqrt(t² + 4).
    a, b = [1.0, 2.0, 3.0], [4.0, 5.0, 6.0]
    s = np.sqrt(13.5 / 17.5)
    assert t_test(a, b) == pytest.approx(1 - s * (1 + (1 - s**2) / 2))
    assert t_test(a, b) == pytest.approx(t_test(b, a))


def test_paired_t_by_hand():
    # Differences 1, 2, 3: t = 2 / (1/sqrt 3) = 3.464 with 2 degrees: p = 1 - t/sqrt(t² + 2).
    assert paired_t_test([2.0, 4.0, 6.0], [1.0, 2.0, 3.0]) == pytest.approx(1 - np.sqrt(12 / 14))


def test_sign_by_hand():
    # Of four pairs three are won and one is lost: 1 - P(two of each) = 1 - 6/16.
    assert sign_test([1, 2, 3, 4, 9], [0, 1, 2, 5, 9]) == pytest.approx(10 / 16)
    assert sign_test([1, 2, 3, 4, 5], [0, 0, 0, 0, 0]) == pytest.approx(2 / 32)
    assert sign_test([0] * 6, [1] * 6) == pytest.approx(2 / 64)
    assert sign_test([1, 2, 3], [1, 2, 4]) == 1  # one pair differs, in either direction


@pytest.mark.parametrize("test", [t_test, paired_t_test, sign_test, kolmogorov_smirnov])
def test_equal_values_count_in_a_family(test):
    assert test([0.1, 0.1, 0.1], [0.1, 0.1, 0.1]) == 1
    assert test([0.0, 0.0], [0.0, 0.0]) == 1
    assert holm([test([0.0, 0.0], [0.0, 0.0]), 0.02]) == pytest.approx([1, 0.04])
    assert np.isnan(test([0.1], [0.1]))


def test_a_constant_difference_is_no_test():
    assert paired_t_test([0.1, 0.1], [0.1, 0.1 + 1e-16]) == t_test([0.1, 0.1], [0.1, 0.1 + 1e-16]) == 1
    assert np.isnan(effect_size([0.0, 0.0], [0.0, 0.0]))
    assert np.isnan(paired_t_test([1.0, 2.0, 3.0], [0.0, 1.0, 2.0]))
    assert np.isnan(t_test([0.2, 0.2], [0.1, 0.1]))


def test_kolmogorov_smirnov_by_hand():
    # Of the 20 ways to split six values in two threes, two have no overlap.
    assert kolmogorov_smirnov([1, 2, 3], [4, 5, 6]) == pytest.approx(2 / 20)
    assert kolmogorov_smirnov([1, 2, 3, 4], [5, 6, 7, 8]) == pytest.approx(2 / 70)
    assert kolmogorov_smirnov([1, 2, 3], [1, 2, 3]) == 1


def test_effect_size_by_hand():
    assert effect_size([1, 2, 3], [4, 5, 6]) == pytest.approx(-3)
    assert effect_size([4, 5, 6], [1, 2, 3]) == pytest.approx(3)
    # Variances 2 (one degree) and 0 (two): pooled 2/3.
    assert effect_size([1, 3], [1, 1, 1]) == pytest.approx(1 / np.sqrt(2 / 3))


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([float("nan"), 0.02, 0.01]) == pytest.approx([float("nan"), 0.02, 0.02], nan_ok=True)
    assert holm([]).shape == (0,)


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_keeps_the_order_and_only_raises(p):
    adjusted = holm(p)
    assert all(adjusted >= np.array(p))
    assert all(adjusted <= 1)
    assert all(np.diff(adjusted[np.argsort(p, kind="stable")]) >= 0)


def test_shaffer_by_hand():
    # The multipliers of Shaffer 1986: three means, and five.
    assert shaffer([0.04, 0.01, 0.02], 3) == pytest.approx([0.04, 0.03, 0.03])
    p = np.arange(1, 11) * 1e-3
    most = np.array([10, 6, 6, 6, 6, 4, 4, 3, 2, 1])
    assert shaffer(p, 5) == pytest.approx(np.maximum.accumulate(p * most))
    # Without a test of one pair two are left, of which both may be equal, as far as is known.
    assert shaffer([float("nan"), 0.02, 0.01], 3) == pytest.approx([float("nan"), 0.02, 0.02], nan_ok=True)
    assert shaffer([], 1).shape == (0,)


@pytest.mark.parametrize("means", range(2, 6))
def test_shaffer_counts_all_pairs_that_may_be_equal(means):
    pairs = list(combinations(range(means), 2))
    for group_of in product(range(means), repeat=means):
        equal = np.array([group_of[a] == group_of[b] for a, b in pairs])
        # If all pairs that differ have the lowest p, the first that is equal is multiplied by the number of equal ones.
        p = np.where(equal, 1e-3, 1e-9)
        if equal.any():
            assert shaffer(p, means)[equal].max() >= 1e-3 * equal.sum() * (1 - 1e-9)
        assert np.all(shaffer(p, means) <= holm(p))


@pytest.mark.parametrize(
    ("tests", "a", "b"),
    [
        ([*TESTS, paired_t_test, sign_test], [0.1], [0.2]),
        ([*TESTS, paired_t_test, sign_test], [], []),
        (TESTS, [0.1], [0.2, 0.3]),
        ([t_test, effect_size, paired_t_test], [0.1] * 3, [0.2] * 3),
    ],
)
def test_too_few_values_or_no_spread_give_nan(tests, a, b):
    assert all(np.isnan(test(a, b)) for test in tests)


def test_one_constant_sample_is_fine():
    assert 0 < t_test([0.1, 0.1, 0.1], [0.2, 0.3, 0.4]) < 0.1
    assert kolmogorov_smirnov([0.1] * 3, [0.2] * 3) == pytest.approx(0.1)


def test_interval_by_hand():
    # Of two values, a mean of either twice has probability 1/4, so both ends lie within 95%.
    assert bootstrap_interval([1.0, 2.0], np.random.default_rng(0)) == (1.0, 2.0)


def test_interval_holds_the_mean_and_repeats(monkeypatch):
    sample = np.random.default_rng(1).normal(5, 1, 40)
    low, high = bootstrap_interval(sample, np.random.default_rng(0))
    # The normal interval of the same sample, which 40 values come close to.
    half = 1.96 * sample.std(ddof=1) / np.sqrt(40)
    assert (low, high) == pytest.approx((sample.mean() - half, sample.mean() + half), abs=0.05)
    assert (low, high) == bootstrap_interval(sample, np.random.default_rng(0))
    monkeypatch.setattr(significance, "AT_ONCE", 7 * len(sample))  # of a long sample, not all resamples at once
    assert (low, high) == bootstrap_interval(sample, np.random.default_rng(0))


@pytest.mark.parametrize("sample", [[], [0.3], [0.1, 0.1, 0.1]])
def test_interval_of_no_spread_is_nan(sample):
    assert np.isnan(bootstrap_interval(sample, np.random.default_rng(0))).all()


def test_the_capital_is_the_mean_over_stakes():
    above, below = evidence(np.array([0.75, 0.5]), 0.5, 0.0, 1.0)
    # A value of .75 wins half of what is staked on more than .5: the largest stake that can't ruin is all there is.
    assert np.exp(above[0, 0]) == pytest.approx(np.mean(1 + FRACTIONS * 0.5))
    assert np.exp(below[0, 0]) == pytest.approx(np.mean(1 - FRACTIONS * 0.5))
    assert np.exp(above[1, 0]) == pytest.approx(np.mean(1 + FRACTIONS * 0.5))  # .5 wins and loses nothing


def test_a_fair_game_is_fair():
    """The mean capital against a true claim is 1: of one step by hand, over a skewed distribution of mean .1."""
    values, chances, mean = np.array([0.0, 1.0]), np.array([0.9, 0.1]), 0.1
    for side in (0, 1):
        capital = [np.exp(evidence(np.array([value]), mean, 0.0, 1.0)[side][0, 0]) for value in values]
        assert chances @ capital == pytest.approx(1)


def test_several_sequences_at_once_are_those_one_by_one():
    values = np.random.default_rng(0).uniform(-1, 1, (9, 4))
    together = p_values(values, 0.2, -1.0, 1.0)
    for column in range(4):
        for a, b in zip(together, p_values(values[:, column], 0.2, -1.0, 1.0), strict=True):
            np.testing.assert_allclose(a[:, column], b)


def test_p_never_rises_and_falls_with_evidence():
    above, below = p_values(np.full(30, 0.4), 0.0, -1.0, 1.0)
    assert (np.diff(above) <= 0).all()
    assert above[-1] < 0.01
    assert (below == 1).all()


def test_a_confidence_sequence_shrinks_around_the_mean_and_says_what_the_p_values_say():
    values = np.random.default_rng(3).normal(0.1, 0.2, 200).clip(-1, 1)
    lower, upper = confidence_sequence(values, 0.95, -1.0, 1.0)
    assert (np.diff(lower) >= 0).all()
    assert (np.diff(upper) <= 0).all()
    assert lower[-1] < 0.1 < upper[-1]
    assert upper[-1] - lower[-1] < 0.2
    refuted = int((p_values(values, 2 / 402, -1.0, 1.0)[0] <= 0.025).argmax())  # the first claim above 0 that is tried
    assert int((lower > 1e-9).argmax()) == refuted > 0


def test_looking_all_the_time_errs_seldom():
    """Runs that diverge now and then: a t-test that is looked at as often errs several times as often."""
    draws = np.where(np.random.default_rng(7).random((60, 2000)) < 0.1, -1.0, 1 / 9)  # the mean is 0
    above, below = p_values(draws, 0.0, -1.0, 1.0)
    assert (2 * np.minimum(above, below) <= 0.05).any(0).mean() < 0.05


def test_values_outside_their_bounds_count_as_the_bounds():
    inside, outside = (p_values(np.array(x), 0.0, -1.0, 1.0)[0][-1] for x in ([1.0, 1.0], [9.0, 3.0]))
    assert inside == outside
