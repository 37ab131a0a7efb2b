from collections.abc import Sequence

import polars as pl
import pytest
from scipy import stats

from cluster.statistics.comparison import TESTS, MethodRuns, best_baselines, compare, named_baseline
from cluster.statistics.paired import MeasuredRun
from ranking.errors import BadInput


def method(name: str, values: Sequence[float], policy: str = "fixed") -> MethodRuns:
    return MethodRuns(
        {"method": name, "policy": policy}, [MeasuredRun(value, seed) for seed, value in enumerate(values)]
    )


METHODS = pl.DataFrame(
    [
        {"method": "bm25 · top", "ranker": "ff", "function": "bm25", "selector": "top"},
        {"method": "bm25 · top", "ranker": "mp", "function": "bm25", "selector": "top"},
        {"method": "random · top", "ranker": "ff", "function": "random", "selector": "top"},
    ]
)
A = method("a", [1.0, 2.0, 4.0, 8.0])
B = method("b", [0.9, 1.8, 3.9, 7.7])  # always a little less, and beside their spread that is nothing
C = method("c", [0.0, 3.0, 1.0, 2.0])
LEARNED = method("l", [9.0, 9.5, 9.0, 9.9], "learned")


def test_the_best_that_is_not_learned_is_the_opponent():
    found = best_baselines([C, LEARNED, B, A])
    assert {name: other.method for name, other in found.items()} == {"a": "b", "b": "a", "c": "a", "l": "a"}
    assert best_baselines([LEARNED, A]) == {"l": A}
    assert best_baselines([LEARNED]) == {}
    tied = method("z", [1.0, 2.0, 4.0, 8.0])
    assert best_baselines([tied, C, A])["c"].method == "a"  # equal means by name
    assert best_baselines([method("x", []), A]) == {"x": A}


def test_each_test_by_hand():
    found = compare([A, B], best_baselines([A, B]))["a"]
    assert list(found) == list(TESTS)
    a, b = A.values, B.values
    t = stats.ttest_rel(a, b).pvalue
    # Differences .1, .2, .1, .3: mean .175, deviation .0957, so t = 3.656 with 3 degrees of freedom.
    assert t == pytest.approx(0.0354, abs=1e-4)
    expected = {"difference": 0.175, "pairs": 4, "paired_p": t, "sign_p": 2 / 2**4}
    expected |= {"t_p": stats.ttest_ind(a, b).pvalue, "ks_p": stats.ks_2samp(a, b).pvalue}
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert found["t_p"] > 0.9  # what the pairing is for
    assert found["effect"] == pytest.approx(0.175 / ((a.var(ddof=1) + b.var(ddof=1)) / 2) ** 0.5)


def test_all_tests_are_adjusted_for_the_distinct_comparisons():
    family = [A, B, C, LEARNED]
    found = compare(family, best_baselines(family))
    for test in ("paired", "sign", "t", "ks"):
        raw = {name: found[name][f"{test}_p"] for name in ("a", "c", "l")}  # of b the same as of a
        least, middle, most = sorted(raw, key=lambda name: raw[name] or 0)
        adjusted = {name: found[name][f"{test}_p_holm"] for name in found}
        assert raw[least] != raw[most]
        first = min(1.0, 3 * raw[least])
        second = min(1.0, max(first, 2 * raw[middle]))
        third = min(1.0, max(second, raw[most]))
        assert (adjusted[least], adjusted[middle], adjusted[most]) == pytest.approx((first, second, third))
        assert adjusted["b"] == adjusted["a"]


def test_several_agents_enter_a_test_with_a_value_each():
    pairs = [("0", 0.50, 0.70), ("1", 0.20, 0.40), ("2", 0.40, 0.80)]
    runs = [MeasuredRun(value, seed, agent) for agent, *values in pairs for seed, value in enumerate(values)]
    learned, random = MethodRuns({"method": "l", "policy": "learned"}, runs), method("r", [0.30, 0.40])
    found = compare([learned], {"l": random})["l"]
    each = [0.25, -0.05, 0.25]  # of agents: (.2 + .3) / 2, (-.1 + .0) / 2, (.1 + .4) / 2
    assert found["pairs"] == 3
    assert found["paired_p"] == pytest.approx(stats.ttest_1samp(each, 0).pvalue)
    assert found["sign_p"] == pytest.approx(1.0)
    assert found["t_p"] == pytest.approx(stats.ttest_ind([0.6, 0.3, 0.6], [0.3, 0.4]).pvalue)
    assert found["ks_p"] is None  # means of two runs spread less than runs
    assert found["difference"] == pytest.approx(0.5 - 0.35)


def test_without_common_seeds_nothing_is_paired_and_without_runs_nothing_compared():
    runs = [MeasuredRun(value, 9 - seed) for seed, value in enumerate((0.1, 0.2, 0.3))]
    other = MethodRuns({"method": "b", "policy": "fixed"}, runs)
    found = compare([A], {"a": other})["a"]
    assert (found["pairs"], found["paired_p"], found["sign_p"]) == (0, None, None)
    assert found["t_p"] is not None
    assert found["paired_p_holm"] is None
    assert compare([A, method("x", [])], {"a": A, "x": A}) == {}


def test_a_baseline_is_the_one_method_that_its_values_name():
    assert named_baseline(METHODS, "function=bm25 selector=top") == ("bm25 · top", {"ff", "mp"})
    assert named_baseline(METHODS, "function=random") == ("random · top", {"ff"})
    assert named_baseline(METHODS, "selector=top ranker=mp") == ("bm25 · top", {"mp"})
    for baseline, said in (
        ("selector=top", "names 2 methods"),
        ("function=dense", "names no method of this study"),
        ("colour=red", "'colour=red' is not one of"),
    ):
        with pytest.raises(BadInput, match=said) as raised:
            named_baseline(METHODS, baseline)
        assert str(raised.value).endswith("choose from: function=bm25 selector=top; function=random selector=top")
