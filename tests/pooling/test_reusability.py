import numpy as np
import polars as pl
import pytest

from pyrite.pooling.adjudicators.bandit.bandit import Bandit
from pyrite.pooling.adjudicators.max_mean import MaxMean
from pyrite.pooling.adjudicators.shallow_first import ShallowFirst
from pyrite.pooling.fairness import fairness
from pyrite.pooling.judging_order import JudgingOrder
from pyrite.pooling.pool import Pool, make_pool
from pyrite.pooling.reusability import leave_out_teams, without_team
from pyrite.pooling.runs import Runs
from pyrite.pooling.simulation import simulate
from pyrite.ranking.errors import BadInput
from tests.pooling.made_up import in_order_of_ids, qrels_of, random_order


def test_without_team_is_the_pool_of_the_other_runs():
    """As if the team's files had not been read at all."""
    rng = np.random.default_rng(2)
    teams = ["b", "a", "b", "c", "a", "c"]
    rows = [
        (run, topic, f"d{document:02}", place)
        for run in range(6)
        for topic in ("1", "2", "10")
        if (run, topic) != (3, "2")  # a run that lacks a topic
        for place, document in enumerate(rng.permutation(40)[: rng.integers(3, 12)].tolist())
    ]
    table = pl.DataFrame(rows, ["run", "topic", "document", "place"], orient="row")
    table = table.cast({"run": pl.UInt32, "place": pl.UInt32})
    qrels = qrels_of(
        *((topic, f"d{d:02}", int(rng.integers(0, 3))) for topic in ("1", "2", "10") for d in range(0, 40, 2))
    )
    names = [f"r{run}" for run in range(6)]
    whole = make_pool(Runs(names, teams, ["1", "2", "10"], table), qrels, 10, 2)
    for team in "abc":
        stay = [run for run in range(6) if teams[run] != team]
        renamed = pl.DataFrame({"run": stay, "to": range(len(stay))}, {"run": pl.UInt32, "to": pl.UInt32})
        fewer = table.join(renamed, on="run", maintain_order="left").with_columns(run="to").drop("to")
        runs = Runs([names[run] for run in stay], [teams[run] for run in stay], ["1", "2", "10"], fewer)
        expected, reduced = make_pool(runs, qrels, 10, 2), without_team(whole, team)
        assert (reduced.runs, reduced.teams, reduced.depth) == (expected.runs, expected.teams, 10)
        assert reduced.relevant_from == 2
        for one, other in zip(reduced.topics, expected.topics, strict=True):
            assert one.documents.to_list() == other.documents.to_list()
            assert (one.grades == other.grades).all()
            assert (one.judged == other.judged).all()
            assert (one.name, one.relevant) == (other.name, other.relevant)
            arrays = [(*each.pool._replace(terms=None), *each.pool.terms) for each in (one, other)]
            for array, of_expected in ((a, b) for a, b in zip(*arrays, strict=True) if a is not None):
                assert array.dtype == of_expected.dtype
                assert array.tolist() == of_expected.tolist()


def test_a_topic_that_only_the_team_has(pool_of):
    pool = pool_of([[[0, 1], [-1, -1]], [[0, 1], [1, 0]]], [[1, 0], [0, 1]])
    reduced = without_team(pool, "run0")
    assert [topic.pool.size for topic in reduced.topics] == [0, 2]
    table = leave_out_teams(pool, in_order_of_ids, [2]).filter(team="run0")
    assert table["map_out"].to_list() == [pytest.approx((0 + 1 / 2) / 2)]


def test_by_hand(pool_of):
    # Document 0 is run0's alone, and relevant, as is 2. Judged are the two first by number.
    rankings, grades = [[[0, 2], [1, 2], [2, 1]]], [[1, 0, 1]]
    pool = pool_of(rankings, grades, teams=["x", "y", "y"])
    table = leave_out_teams(pool, in_order_of_ids, [2])
    assert table["run"].to_list() == ["run0", "run1", "run2"]
    assert table["team"].to_list() == ["x", "y", "y"]
    assert table["map_full"].to_list() == pytest.approx([1, 1 / 4, 1 / 2])
    assert table["rank_full"].to_list() == [1, 3, 2]
    # All runs: 0 and 1 are judged, 0 is known to be relevant.
    assert table["map_in"].to_list() == [1, 0, 0]
    assert table["rank_in"].to_list() == [1, 2.5, 2.5]
    # Without x: 1 and 2 are judged, run0 has 2 at rank 2 as run1 has. Without y: 0 and 2 are judged, 1 is unknown.
    assert table["map_out"].to_list() == pytest.approx([1 / 2, 1 / 4, 1 / 2])
    assert table["rank_out"].to_list() == [2.5, 3, 2]
    assert table["lost"].to_list() == pytest.approx([1 / 2, -1 / 4, -1 / 2])
    assert table["fallen"].to_list() == [1.5, 0.5, -0.5]
    assert table["lost_full"].to_list() == pytest.approx([1 / 2, 0, 0])
    assert table["fallen_full"].to_list() == [1.5, 0, 0]


def test_a_team_that_finds_nothing_of_its_own_loses_nothing(pool_of):
    pool = pool_of([[[0, 1, 2], [2, 1, 0], [1, 2, 3]]], [[1, 0, 1, 0]], teams=["x", "y", "z"])
    table = leave_out_teams(pool, in_order_of_ids, [1, 2, 4]).filter(pl.col("team") != "z")
    assert table["budget"].to_list() == [1, 2, 4, 1, 2, 4]
    assert table["lost"].to_list() == [0] * 6
    assert table["fallen"].to_list() == [0] * 6


def test_the_judge_sees_the_reduced_pool_and_the_team_is_unpooled(random_pool):
    pool = random_pool(np.random.default_rng(5))
    seen = []

    def judge(given: Pool) -> JudgingOrder:
        seen.append(given)
        return random_order(given, np.random.default_rng(1))

    table = leave_out_teams(pool, judge, [10, 1000])
    assert [set(given.teams) for given in seen] == [
        {"team0", "team1", "team2"}, {"team1", "team2"}, {"team0", "team2"}, {"team0", "team1"},
    ]  # fmt: skip
    assert len(table) == 2 * 6
    # With everything judged, the AP of a run that was left out is that of its documents which others hold.
    expected = np.zeros((len(pool.topics), 2))
    for number, topic in enumerate(pool.topics):
        others = np.unique(topic.pool.ranking[2:])
        known = np.isin(np.arange(topic.pool.size), others[others >= 0]) & pool.is_relevant(topic)
        for run in range(2):
            hits = known[topic.pool.ranking[run]]
            expected[number, run] = (np.cumsum(hits) / np.arange(1, len(hits) + 1))[hits].sum() / known.sum()
    assert table.filter(budget=1000, team="team0")["map_out"].to_list() == pytest.approx(expected.mean(0).tolist())
    assert table.equals(leave_out_teams(pool, judge, [10, 1000]))


def test_bad_input(random_pool, pool_of):
    pool = random_pool(np.random.default_rng(5))
    with pytest.raises(BadInput, match="all runs are of team 'x'"):
        leave_out_teams(pool_of([[[0], [1]]], [[0, 1]], ["x", "x"]), in_order_of_ids, [1])
    with pytest.raises(BadInput, match="budget of 0"):
        leave_out_teams(pool, in_order_of_ids, [0])


def test_fairness_by_hand(pool_of):
    # Run 0 and 1 are one team: document 0 is theirs alone, 2 is held by both teams, 3 by run 2 alone.
    pool = pool_of([[[0, 1, 2], [1, 0, 2], [2, 3, -1]]], [[1, 0, 1, 1]], teams=["a", "a", "b"])
    order = JudgingOrder([np.array([0, 1, 2, 3], np.int32)])
    table = fairness(pool, order, [1, 2, 3, 4])
    assert table["unique"].to_list() == [1.0, 1.0, 0.5, 2 / 3]
    # Judged 0: depths 1, 0, 0; 0 and 1: 2, 2, 0; and 2: 3, 3, 1; all: 3, 3, 2 (a short run is judged to its end).
    assert np.allclose(table["depth"].to_list(), [1 / 3, 4 / 3, 7 / 3, 8 / 3])
    assert table["least_run"].to_list()[1:] == ["run2"] * 3
    assert table["depth_least"].to_list()[1:] == [0, 1, 2]
    assert table["crowded"].to_list() == [1, 1, 1, 1]


def test_shallow_first_judges_all_runs_alike_first(random_pool):
    pool = random_pool(np.random.default_rng(3), topics=2)
    [fair] = simulate(ShallowFirst(Bandit(MaxMean()), depth=3), pool, [0])
    for topic, documents in zip(pool.topics, fair.documents, strict=True):
        tops = set(topic.pool.ranking[:, :3].ravel().tolist())
        assert set(documents[: len(tops)].tolist()) == tops
    [greedy] = simulate(Bandit(MaxMean()), pool, [0])
    budget = max(len(set(topic.pool.ranking[:, :3].ravel().tolist())) for topic in pool.topics)
    least = [fairness(pool, order, [budget])["depth_least"][0] for order in (fair, greedy)]
    assert least[0] >= 3 > least[1]
