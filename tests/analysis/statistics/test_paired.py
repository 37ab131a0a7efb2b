from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest
from scipy import stats

from pyrite.analysis.statistics.comparison import TESTS, MethodRuns, best_baselines, compare, named_baseline
from pyrite.analysis.statistics.crossed import UNTESTED, crossed_difference
from pyrite.analysis.statistics.paired import MeasuredRun, agent_cells, complete_runs, differences, mean_difference
from pyrite.ranking.errors import BadInput


def of_agent(agent: str, *values: float) -> list[MeasuredRun]:
    return [MeasuredRun(value, seed, agent) for seed, value in enumerate(values)]


def test_runs_of_one_seed_are_a_pair():
    a = [MeasuredRun(0.9, 2), MeasuredRun(0.5, 0), MeasuredRun(0.7, 1), MeasuredRun(0.1, 7)]
    b = [MeasuredRun(0.4, 0), MeasuredRun(0.8, 1), MeasuredRun(0.3, 2), MeasuredRun(0.2, 9)]
    assert differences(a, b) == pytest.approx([0.1, -0.1, 0.6])  # by seed; 7 and 9 have no partner
    assert differences(b, a) == pytest.approx([-0.1, 0.1, -0.6])
    assert differences([], b).shape == differences([MeasuredRun(0.1, 1)], [MeasuredRun(0.1, 2)]).shape == (0,)
    a, b = [MeasuredRun(1.0, 10), MeasuredRun(2.0, 9)], [MeasuredRun(0.0, 9), MeasuredRun(0.0, 10)]
    assert differences(a, b).tolist() == [2.0, 1.0]  # 10 is behind 9


def test_runs_of_one_seed_pair_by_the_settings_that_both_have():
    a = [MeasuredRun(value, 0, settings={"rate": rate, "own": rate * 2}) for value, rate in ((0.5, "1"), (0.9, "2"))]
    b = [MeasuredRun(value, 0, settings={"rate": rate}) for value, rate in ((0.4, "1"), (0.2, "2"))]
    assert differences(a, b) == pytest.approx([0.1, 0.7])
    alone = [MeasuredRun(0.4, 0)]  # has no rate: all runs of the seed are averaged
    assert differences(a, alone) == pytest.approx([0.3])


def test_an_agent_is_one_pair_however_many_seeds_it_has():
    agents = [*of_agent("0", 0.5, 0.7), *of_agent("1", 0.2, 0.4), MeasuredRun(0.9, 1, "2"), MeasuredRun(0.9, 5, "3")]
    random = of_agent("-", 0.3, 0.4)
    expected = [(0.2 + 0.3) / 2, (-0.1 + 0.0) / 2, 0.5]  # agent 3 shares no seed
    assert differences(agents, random) == pytest.approx(expected)
    assert differences(random, agents) == pytest.approx([-d for d in expected])
    a = [*of_agent("0", 0.5, 0.7), *of_agent("1", 0.2)]
    b = [*of_agent("0", 0.4, 0.2), *of_agent("2", 0.9), *of_agent("1", 0.5)]
    assert differences(a, b) == pytest.approx([0.3, -0.3])  # agent by agent
    assert differences(of_agent("4", 0.5, 0.7), random) == pytest.approx([0.2, 0.3])  # one agent by its seeds


def test_nothing_is_tested_with_two_pairs_or_without_spread():
    difference = mean_difference([0.1, 0.3, 0.2])
    assert difference.p == pytest.approx(stats.ttest_1samp([0.1, 0.3, 0.2], 0).pvalue)
    assert (difference.low + difference.high) / 2 == pytest.approx(difference.mean) == 0.2
    for untested in ([0.1], [0.1, 0.4], [0.4 - 0.3, 0.7 - 0.6, 0.1], [3.0] * 5):  # .4 - .3 and .7 - .6 differ in a bit
        difference = mean_difference(untested)
        assert np.isnan([difference.low, difference.high, difference.p]).all()
        assert (difference.mean, difference.pairs) == (pytest.approx(np.mean(untested)), len(untested))
    assert mean_difference([0.0, 0.0, 1e-17]) == (0, 0, 0, 1, 3)


def test_runs_are_complete_if_all_agents_of_both_methods_have_their_seed():
    random = of_agent("-", 0.3, 0.4, 0.5, 0.6)
    agents = [*of_agent("0", 0.5, 0.7, 0.6), *of_agent("1", 0.2, 0.4)]
    assert complete_runs(agents, random) == ([*of_agent("0", 0.5, 0.7), *of_agent("1", 0.2, 0.4)], random[:2])
    assert complete_runs(random, agents[3:]) == (random[:2], agents[3:])
    apart = [MeasuredRun(0.5, 0, "0"), MeasuredRun(0.6, 1, "1"), MeasuredRun(0.7, 9, "2")]  # a seed for each agent
    assert complete_runs(apart, random) == (apart[:2], random[:2])
    named = [*of_agent("1", 0.1, 0.2), *of_agent("7", 0.3, 0.4)]
    assert complete_runs(agents, named) == (agents[3:], named[:2])
    rates = [MeasuredRun(0.5, 0, settings={"rate": rate}) for rate in "12"]
    assert complete_runs(rates, rates[:1]) == (rates[:1], rates[:1])
    assert complete_runs([], random) == ([], [])


def test_a_crossed_difference_by_hand():
    """Two seeds by two queries, 3 and 1, 2 and 2: mean squares 0, 1 and 1 with one degree of freedom each."""
    cells = np.array([[3.0, 1.0], [2.0, 2.0]])
    test = crossed_difference(cells)
    assert test.mean == 2
    assert (test.of_seed, test.of_query) == (0, 0)
    assert test.of_cell == pytest.approx(1)
    assert test.error == pytest.approx(0.5)  # the rest's mean square, over four cells
    assert test.freedom == pytest.approx(1)
    assert test.p == pytest.approx(2 * stats.t.sf(4, 1))
    assert test.p_equal(3) == pytest.approx(stats.t.sf(2, 1))
    assert crossed_difference(cells[:1]) is UNTESTED
    assert crossed_difference(np.ones((3, 4))) is UNTESTED
    nothing = crossed_difference(np.zeros((3, 4)))
    assert nothing is not None
    assert (nothing.mean, nothing.low, nothing.high, nothing.p, nothing.p_equal(0.01)) == (0, 0, 0, 1, 0)
    rng = np.random.default_rng(1)
    of_seeds, of_queries = rng.normal(0, 1, (30, 1)), rng.normal(0, 1, (1, 50))
    for cells, error in (
        (of_seeds + 0 * of_queries, of_seeds.std(ddof=1) / 30**0.5),
        (0 * of_seeds + of_queries, of_queries.std(ddof=1) / 50**0.5),
    ):
        test = crossed_difference(cells)
        assert test.error == pytest.approx(error)


def test_runs_are_paired_query_by_query_whatever_their_order():
    a, b = [MeasuredRun(0.5, seed, name=f"a{seed}") for seed in (1, 0)], [MeasuredRun(0.4, 0, name="b0")]
    values = {"a0": np.array([0.5, 0.3]), "a1": np.array([9.0, 9.0]), "b0": np.array([0.25, 0.25])}
    assert differences(a, b, values).tolist() == [pytest.approx([0.25, 0.05])]
    rng = np.random.default_rng(0)
    a = [MeasuredRun(value, seed, str(agent)) for agent in range(3) for seed, value in enumerate(rng.random(4))]
    b = [MeasuredRun(value, seed) for seed, value in enumerate(rng.random(4)) for _ in range(2)]
    expected = differences(a, b)
    for _ in range(5):
        shuffled = [[runs[i] for i in rng.permutation(len(runs))] for runs in (a, b)]
        assert differences(*shuffled).tolist() == expected.tolist()


def method(name: str, values: Sequence[float], policy: str = "fixed") -> MethodRuns:
    return MethodRuns({"method": name, "policy": policy}, of_agent("-", *values))


METHODS = pl.DataFrame(
    {"ranker": ["ff", "mp", "ff"], "function": ["bm25", "bm25", "random"], "selector": "top"}
).with_columns(method=pl.format("{} · top", "function"))
A = method("a", [1.0, 2.0, 4.0, 8.0])
B = method("b", [0.9, 1.8, 3.9, 7.7])  # always a little less, and beside their spread that is nothing
C = method("c", [0.0, 3.0, 1.0, 2.0])
LEARNED = method("l", [9.0, 9.5, 9.0, 9.9], "learned")


def test_the_best_that_is_not_learned_is_the_opponent():
    found = best_baselines([C, LEARNED, B, A])
    assert {name: other.method for name, other in found.items()} == {"a": "b", "b": "a", "c": "a", "l": "a"}
    assert best_baselines([LEARNED, A]) == {"l": A}
    assert best_baselines([LEARNED]) == {}
    assert best_baselines([method("z", [1.0, 2.0, 4.0, 8.0]), C, A])["c"].method == "a"  # equal means by name
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
    runs = [*of_agent("0", 0.50, 0.70), *of_agent("1", 0.20, 0.40), *of_agent("2", 0.40, 0.80)]
    learned, random = MethodRuns({"method": "l", "policy": "learned"}, runs), method("r", [0.30, 0.40])
    found = compare([learned], {"l": random})["l"]
    each = [0.25, -0.05, 0.25]  # of agents: (.2 + .3) / 2, (-.1 + .0) / 2, (.1 + .4) / 2
    assert found["pairs"] == 3
    cells = np.array([[0.2, 0.3], [-0.1, 0.0], [0.1, 0.4]])  # agents and seeds are both a sample
    assert cells.mean(1) == pytest.approx(each)
    assert found["paired_p"] == found["p_both"] == pytest.approx(crossed_difference(cells).p)
    assert found["paired_p"] > stats.ttest_1samp(each, 0).pvalue
    assert found["sign_p"] == pytest.approx(1.0)
    assert found["t_p"] == pytest.approx(stats.ttest_ind([0.6, 0.3, 0.6], [0.3, 0.4]).pvalue)
    assert np.isnan(found["ks_p"])  # means of two runs spread less than runs
    assert found["difference"] == pytest.approx(0.5 - 0.35)
    once = MethodRuns({"method": "l", "policy": "learned"}, [run for run in runs if run.seed == 0])
    assert compare([once], {"l": random})["l"]["ks_p"] is not None
    one = MethodRuns({"method": "l", "policy": "learned"}, [run for run in runs if run.agent == "0"])  # by its runs
    found = compare([one], {"l": random})["l"]
    assert found["t_p"] == pytest.approx(stats.ttest_ind([0.5, 0.7], [0.3, 0.4]).pvalue)
    assert not np.isnan(found["ks_p"])


def test_without_common_seeds_nothing_is_paired_and_without_runs_nothing_compared():
    runs = [MeasuredRun(value, 9 - seed) for seed, value in enumerate((0.1, 0.2, 0.3))]
    found = compare([A], {"a": MethodRuns({"method": "b", "policy": "fixed"}, runs)})["a"]
    assert found["pairs"] == 0
    assert np.isnan([found["paired_p"], found["sign_p"]]).all()
    assert not np.isnan(found["t_p"])
    assert np.isnan(found["paired_p_holm"])
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


def test_agents_and_seeds_are_both_a_sample():
    runs = [*of_agent("0", 0.50, 0.70), *of_agent("1", 0.20, 0.40)]
    random = [MeasuredRun(0.3, 0), MeasuredRun(0.4, 1)]
    assert agent_cells(runs, random) == pytest.approx(np.array([[0.2, 0.3], [-0.1, 0.0]]))
    assert agent_cells(random, random).size == 0
    apart = [MeasuredRun(0.5, seed, agent) for seed, agent in ((0, "0"), (1, "0"), (2, "1"), (3, "1"))]
    others = [MeasuredRun(0.3, seed) for seed in range(4)]
    assert agent_cells(apart, others).size == 0  # no luck is shared: the means of agents are independent
    assert differences(apart, others) == pytest.approx([0.2, 0.2])


def test_three_factors_agree_with_two_if_the_third_has_no_effect():
    rng = np.random.default_rng(3)
    two = rng.normal(0, 1, (5, 1)) + rng.normal(0, 1, (1, 6)) + rng.normal(0, 0.3, (5, 6))
    three = np.repeat(two[:, :, None], 4, 2)
    one, other = crossed_difference(two), crossed_difference(three)
    assert other.mean == pytest.approx(one.mean)
    assert other.error == pytest.approx(one.error)
    assert crossed_difference(np.zeros((3, 4, 5))).p == 1.0


@pytest.mark.parametrize(("agents", "seeds", "of_seed"), [(8, 10, 0.025), (5, 4, 0.018)])
def test_a_true_difference_of_nothing_is_seldom_rejected_with_agents(agents, seeds, of_seed):
    rng, rejected, studies = np.random.default_rng(5), 0, 120
    for _ in range(studies):
        random = rng.normal(0, of_seed, (1, seeds, 1)) + rng.normal(0, 0.14, (1, seeds, 60))
        learned = rng.normal(0, 0.006, (agents, 1, 1)) + rng.normal(0, 0.012, (agents, seeds, 1))
        cells = learned + rng.normal(0, 0.035, (1, 1, 60)) + rng.normal(0, 0.14, (agents, seeds, 60)) - random
        rejected += crossed_difference(cells).p < 0.05
    assert rejected / studies < 0.1  # .33 with the other method's seeds as constants
