import numpy as np
import pytest
from scipy import stats

from cluster.statistics.paired import MeasuredRun, agent_means, are_means, crossed_difference, differences, units


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
    a = [
        MeasuredRun(0.5, 0, settings={"rate": "1", "own": "x"}),
        MeasuredRun(0.9, 0, settings={"rate": "2", "own": "y"}),
    ]
    b = [MeasuredRun(0.4, 0, settings={"rate": "1"}), MeasuredRun(0.2, 0, settings={"rate": "2"})]
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


def test_units_of_several_agents_are_their_means():
    runs = [*of_agent("1", 0.4, 0.6), *of_agent("0", 0.1, 0.2, 0.9)]
    assert agent_means(runs) == pytest.approx({"0": 0.4, "1": 0.5})
    assert units(runs) == pytest.approx([0.4, 0.5])
    assert are_means(runs) is True
    once = [MeasuredRun(0.9, 0, "0"), MeasuredRun(0.1, 1, "1")]
    assert units(once).tolist() == [0.1, 0.9]
    assert are_means(once) is False
    one = of_agent("0", 0.9, 0.1)
    assert units(one).tolist() == [0.1, 0.9]
    assert not are_means(one)
    assert not are_means([])


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
    assert crossed_difference(cells[:1]) is None
    assert crossed_difference(np.ones((3, 4))) is None
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
