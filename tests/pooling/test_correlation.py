from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pooling.correlation import Drop, kendall_tau, largest_drops, ranks, tau_aps

TIED = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=6)


def tau_ap(full: np.ndarray, partial: np.ndarray) -> float:
    [tau] = tau_aps(full, partial[None])
    return tau


def largest_drop(full: np.ndarray, partial: np.ndarray) -> Drop:
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
