from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from cluster.executors.task import Context
from cluster.output.storage import Storage
from cluster.pools.trial import LOSADA, Trial, execute_trial, trial_store, usual_budgets
from pooling.effort import effort, total_curve
from pooling.judging_order import JudgingOrder
from pooling.pool import Pool, Topic, topic_pool


def pool_of(*grades: list[int]) -> Pool:
    """A run that holds all documents of each topic in their order."""
    topics = [
        Topic(
            str(number),
            topic_pool(np.arange(len(of), dtype=np.int32)[None], len(of)),
            pl.Series([f"d{place}" for place in range(len(of))]),
            np.array(of, np.int32),
            np.ones(len(of), bool),
            sum(of),
        )
        for number, of in enumerate(grades)
    ]  # fmt: skip
    return Pool(topics, ["run"], ["team"], max(map(len, grades)))


def test_the_curve_over_all_topics_also_of_a_shared_budget_and_of_nothing_relevant():
    pool = pool_of([0, 1, 1, 0], [1, 0])
    order = JudgingOrder([np.array([1, 0, 2, 3], np.int32), np.array([1, 0], np.int32)])
    total, curve = total_curve(pool, order)
    assert total == 3
    assert curve.tolist() == [1, 2, 3, 3]  # topic 0: 1 1 2 2, topic 1: 0 1 and no more
    told = effort(pool, order)
    assert told["area"] == pytest.approx((1 + 2 + 3 + 3) / 12)
    assert (told["to_50"], told["to_80"], told["to_90"]) == (2, 3, 3)
    turns = np.array([0, 0, 1, 0, 0, 1], np.int32)
    order = JudgingOrder([np.array([1, 2, 0, 3], np.int32), np.array([0, 1], np.int32)], turns)
    # Found after each judgement: 1 2 3 3 3 3; a budget of b is 2b judgements, at most all six.
    assert total_curve(pool, order)[1].tolist() == [2, 3, 3, 3]
    assert effort(pool, order)["to_50"] == 1
    pool = pool_of([0, 0])
    assert all(np.isnan(value) for value in effort(pool, JudgingOrder([np.array([0, 1], np.int32)])).values())


def test_budgets_suit_the_pool():
    assert usual_budgets(pool_of([0] * 2001)) == LOSADA
    assert usual_budgets(pool_of([0] * 100)) == [5, 10, 20, 30, 45, 60, 80]
    assert usual_budgets(pool_of([1])) == [1]


def test_a_result_keeps_the_code_that_its_study_was_planned_with(tmp_path):
    """The trial's process may start when there is a newer commit; the study goes on with its own results."""
    storage, node = Storage(str(tmp_path)), {"_target_": "pooling.adjudicators.static.DocID"}
    options = {"seeds": 1, "cpu": 1, "budgets": [1], "ranking_quality": False, "reuse": False, "stopping": {}}
    trial = Trial("a", "pool", "of the pool", "docid", node, options, {"code of pooling": "of the study"})
    execute_trial(trial, storage, {trial.pool: pool_of([0, 1, 1, 0])}, Context())
    assert trial_store(storage, [trial]).has("a")
    other = replace(trial, made_of={"code of pooling": "another"})
    assert trial_store(storage, [other]).finished(["a"]) == (set(), {"code of pooling": 1})
