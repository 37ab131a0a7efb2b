"""Comparisons of all methods of a place: with one reference, of all pairs, and with the best."""

import numpy as np
import pytest
from scipy import stats

from benchmarks.verdict import cells, concluded
from pyrite.analysis.statistics.comparison import MethodRuns
from pyrite.analysis.statistics.method_comparison import MethodComparison
from pyrite.analysis.statistics.paired import MeasuredRun

LEADS = {"a": [0.30, 0.31, 0.29, 0.30], "b": [0.29, 0.30, 0.30, 0.29], "c": [0.10, 0.10, 0.11, 0.09]}


@pytest.fixture
def comparison() -> MethodComparison:
    runs = {name: [MeasuredRun(value, seed) for seed, value in enumerate(values)] for name, values in LEADS.items()}
    return MethodComparison({name: MethodRuns({"method": name}, of) for name, of in runs.items()})


def test_a_pair_is_the_paired_t_test_and_turns(comparison):
    pair = comparison.pair("a", "b")
    assert pair.p == pytest.approx(stats.ttest_rel(LEADS["a"], LEADS["b"]).pvalue)
    assert (pair.mean, pair.pairs) == (pytest.approx(0.005), 4)
    low, high = stats.ttest_rel(LEADS["a"], LEADS["b"]).confidence_interval()
    assert pair.interval(0.05) == pytest.approx((low, high))
    assert comparison.pair("b", "a") == pair.turned()


def test_intervals_of_a_family_are_bonferronis_and_p_of_all_pairs_shaffers(comparison):
    tests = comparison.against("c", 0.01)
    for name, test in tests.items():
        assert (test.low, test.high) == pytest.approx(comparison.pair(name, "c").interval(0.025))
        assert test.direction == 1
    raw = sorted(comparison.pair(*pair).p for pair in (("a", "b"), ("a", "c"), ("b", "c")))
    assert sorted(test.p for test in comparison.all_pairs(0.01).values()) == pytest.approx(
        [3 * raw[0], max(3 * raw[0], raw[1]), raw[2]]
    )


def test_the_best_is_bounded_and_a_far_one_is_left_out(comparison):
    assert list(comparison.best.possible) == ["a", "b"]
    pair = comparison.pair("a", "b")
    assert comparison.best.ahead["a"] == pytest.approx(-pair.mean + stats.t.isf(0.025, 3) * pair.error)
    assert comparison.best.ahead["c"] > 0.19
    after, difference, low, high = comparison.lead("a")
    assert (after, difference) == ("b", pytest.approx(0.005))
    assert low < 0 < high


def test_equal_methods_are_seldom_called_better_and_the_bound_holds():
    chosen = next(cell for cell in cells() if cell.name == "equal, 5-methods, 3 seeds, 100 queries, normal")
    counts = [concluded(chosen, number) for number in range(40)]
    assert sum(count["false better"] for count in counts) <= 5
    assert sum(count["missed ahead"] for count in counts) <= 5
    ahead = chosen._replace(leads=(0.2, *np.zeros(4)))
    assert all(concluded(ahead, number)["found"] == 4 for number in range(5))
