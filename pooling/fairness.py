"""Measures how fairly judgements treat runs and topics: documents that only one team found, judged depth per run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pooling.judging_order import JudgingOrder
from pooling.pool import Pool, Topic

CROWDED = 1 / 3
"""Share of a topic's judged documents beyond which, if they are relevant, many more must be expected unjudged."""


def fairness(pool: Pool, order: JudgingOrder, budgets: Sequence[int]) -> pl.DataFrame:
    """Compute what Voorhees (2018, "On building fair and reusable test collections using bandit techniques") requires
    of a collection that a bandit built.

    Args:
        pool: the pool with its judgements.
        order: the order in which they were made.
        budgets: judgements per topic.

    Returns:
        One row per budget: budget; unique (share of the relevant documents found that only one team's runs hold); depth
            (ranks that are judged without a gap, from the first, mean over runs and topics), depth_least and least_run
            (mean over topics, for the run with the least); crowded (share of the topics with more than a third of their
            judged documents relevant).
    """
    spent = np.array([order.spent(budget) for budget in budgets], np.int64)
    found, unique, crowded = (np.zeros(len(budgets), np.int64) for _ in range(3))
    depths = np.zeros((len(budgets), len(pool.runs)))
    for topic, documents, counts in zip(pool.topics, order.documents, spent.T, strict=True):
        relevant = pool.is_relevant(topic)[documents]
        own = _counted(relevant)[counts]
        found += own
        unique += _counted(relevant & _of_one_team(topic)[documents])[counts]
        crowded += own > CROWDED * counts
        last = _last_judged(topic, documents)
        depths += [(last < count).sum(1) / len(pool.topics) for count in counts]
    least = depths.argmin(1)
    return pl.DataFrame(
        {
            "budget": list(budgets),
            "unique": [int(alone) / int(all_) if all_ else None for alone, all_ in zip(unique, found, strict=True)],
            "depth": depths.mean(1),
            "depth_least": depths.min(1),
            "least_run": [pool.runs[run] for run in least],
            "crowded": crowded / len(pool.topics),
        },
        schema_overrides={"unique": pl.Float64},
    )


def _counted(these: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Count how many of these are among the first n, from n = 0 on: int64 [documents + 1]."""
    return np.concatenate([[0], np.cumsum(these, dtype=np.int64)])


def _of_one_team(topic: Topic) -> NDArray[np.bool_]:
    """Return which documents only the runs of one team hold."""
    teams, starts = topic.pool.teams[topic.pool.holders], topic.pool.offsets[:-1]
    alone: NDArray[np.bool_] = np.minimum.reduceat(teams, starts) == np.maximum.reduceat(teams, starts)
    return alone


def _last_judged(topic: Topic, documents: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the turn, within the topic, at which the last of each run's first documents is judged: int64 [runs,
    ranks].

    A rank that a run does not have is never judged.
    """
    ranking = topic.pool.ranking
    turns = np.empty(topic.pool.size, np.int64)
    turns[documents] = np.arange(len(documents))
    never = np.iinfo(np.int64).max
    last: NDArray[np.int64] = np.maximum.accumulate(np.where(ranking >= 0, turns[ranking], never), axis=1)
    return last
