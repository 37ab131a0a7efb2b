"""Evidence that may be looked at after each value."""

import numpy as np
import pytest

from ranking.evaluation.anytime import FRACTIONS, confidence_sequence, evidence, p_values


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
        alone = p_values(values[:, column], 0.2, -1.0, 1.0)
        for a, b in zip(together, alone, strict=True):
            np.testing.assert_allclose(a[:, column], b)


def test_p_never_rises_and_falls_with_evidence():
    above, below = p_values(np.full(30, 0.4), 0.0, -1.0, 1.0)
    assert (np.diff(above) <= 0).all()
    assert above[-1] < 0.01
    assert (below == 1).all()


def test_a_confidence_sequence_shrinks_around_the_mean_and_says_what_the_p_values_say():
    rng = np.random.default_rng(3)
    values = rng.normal(0.1, 0.2, 200).clip(-1, 1)
    lower, upper = confidence_sequence(values, 0.95, -1.0, 1.0)
    assert (np.diff(lower) >= 0).all()
    assert (np.diff(upper) <= 0).all()
    assert lower[-1] < 0.1 < upper[-1]
    assert upper[-1] - lower[-1] < 0.2
    refuted = int((p_values(values, 2 / 402, -1.0, 1.0)[0] <= 0.025).argmax())  # the first claim above 0 that is tried
    assert int((lower > 1e-9).argmax()) == refuted > 0


def test_looking_all_the_time_errs_seldom():
    """Runs that diverge now and then: a t-test that is looked at as often errs several times as often."""
    rng = np.random.default_rng(7)
    draws = np.where(rng.random((60, 2000)) < 0.1, -1.0, 1 / 9)  # the mean is 0
    above, below = p_values(draws, 0.0, -1.0, 1.0)
    assert (2 * np.minimum(above, below) <= 0.05).any(0).mean() < 0.05


def test_values_outside_their_bounds_count_as_the_bounds():
    inside, outside = (p_values(np.array(x), 0.0, -1.0, 1.0)[0][-1] for x in ([1.0, 1.0], [9.0, 3.0]))
    assert inside == outside
