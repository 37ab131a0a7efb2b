from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from pooling.judging_order import JudgingOrder
from pooling.ranking_quality import RankingQuality
from ranking.errors import BadInput
from tests.pooling.made_up import in_order_of_ids

# Two topics, three runs; relevant are 0 and 1 in both. Full MAP: run0 1, run1 (1/2 + 2/3) / 2, run2 0.
RANKINGS = [[[0, 1, 2], [2, 0, 1], [3, 4, 2]]] * 2
GRADES = [[1, 1, 0, 0, 0]] * 2


def test_by_hand(pool_of):
    pool = pool_of(RANKINGS, GRADES, outside=1)
    # First two that are not relevant, so all runs have 0; then those that are.
    order = JudgingOrder([np.array([2, 3, 0, 1, 4], np.int32)] * 2)
    table = RankingQuality(pool).table(order, [2, 3, 100])
    assert table["budget"].to_list() == [2, 3, 100]
    assert table["judged"].to_list() == [2, 3, 5]
    assert table["found"].to_list() == [0, 1, 2]
    assert table["recall"].to_list() == pytest.approx([0, 1 / 3, 2 / 3])
    assert np.isnan(table["tau"][0])
    assert table["tau_ap"].to_list() == pytest.approx([0, 1, 1])
    assert table["tau"][1:].to_list() == pytest.approx([1, 1])
    assert table["drop"].to_list() == [1, 0, 0]  # all tie at rank 2
    assert table["dropped"].to_list() == ["run0", None, None]
    full = np.array([2 / 3, (1 / 2 + 2 / 3) / 3, 0])  # one of three relevant is outside the pool
    assert table["bias"].to_list() == pytest.approx(
        [-full.mean(), (1 + 1 / 2) / 3 - full.mean(), (1 + (1 / 2 + 2 / 3) / 2) / 3 - full.mean()]
    )


def test_topics_differ_in_what_is_judged(pool_of):
    pool = pool_of(RANKINGS, [[1, 1, 0, 0, 0], [0, 0, 0, 0, 0]])
    order = in_order_of_ids(pool)
    row = RankingQuality(pool).at(order, np.array([1, 4]))
    assert (row["judged"], row["found"]) == (2.5, 0.5)
    assert row["recall"] == row["lowest_recall"] == 0.5  # the second topic has nothing to recall


def test_a_shared_budget_is_counted_by_its_turns(pool_of):
    pool = pool_of(RANKINGS, GRADES)
    turns = np.array([0, 0, 0, 1, 0, 0, 1, 1, 1, 1], np.int32)
    table = RankingQuality(pool).table(replace(in_order_of_ids(pool), turns=turns), [2])
    assert table["judged"].to_list() == [2]
    assert table["recall"].to_list() == [(1 + 1 / 2) / 2]


def test_no_relevant_document_at_all(pool_of):
    pool = pool_of(RANKINGS, [[0] * 5] * 2)
    table = RankingQuality(pool).table(in_order_of_ids(pool), [1, 5])
    assert table["recall"].is_nan().all()
    assert table["tau"].is_nan().all()
    assert table["dropped"].dtype == pl.String
    assert table["dropped"].null_count() == 2


def test_budgets_below_one_are_refused(pool_of):
    pool = pool_of(RANKINGS, GRADES)
    with pytest.raises(BadInput, match="budget of 0"):
        RankingQuality(pool).table(in_order_of_ids(pool), [5, 0])


def test_everything_judged_is_the_truth(random_pool):
    pool = random_pool(np.random.default_rng(2), topics=6, runs=12)
    order = in_order_of_ids(pool)
    first, again = (RankingQuality(pool).table(order, [1, 5, 10, 1000]) for _ in range(2))
    assert first.equals(again)
    last = first.row(-1, named=True)
    assert last["recall"] == 1
    assert (last["tau"], last["drop"], last["bias"]) == (pytest.approx(1), 0, pytest.approx(0))
    assert last["tau_ap"] == pytest.approx(1)
    assert last["inf_bias"] == pytest.approx(0, abs=1e-4)  # infAP's ε
