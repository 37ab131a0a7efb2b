"""Measures how fairly judgements treat runs and topics: what one team alone found, how deep runs are judged."""

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
    """What Voorhees (2018, "On building fair and reusable test collections using bandit techniques") asks of a
    collection that a bandit built.

    Args:
        pool: with its judgements.
        order: in which they were made.
        budgets: judgements a topic.

    Returns:
        A row a budget: budget; unique (share of the relevant documents found that one team's runs alone hold);
        depth (ranks that are judged without a gap, from the first, mean over runs and topics), depth_least and
        least_run (mean over topics, of the run with the least); crowded (share of the topics of whose judged documents
        more than a third are relevant).
    """
    of_one_team = [_of_one_team(topic) for topic in pool.topics]
    rows = []
    for budget in budgets:
        found = unique = crowded = 0
        depths = np.zeros(len(pool.runs))
        for number, topic in enumerate(pool.topics):
            documents = order.judged(number, budget)
            judged = np.zeros(topic.pool.size, bool)
            judged[documents] = True
            relevant = judged & pool.is_relevant(topic)
            found += int(relevant.sum())
            unique += int((relevant & of_one_team[number]).sum())
            crowded += int(relevant.sum() > CROWDED * len(documents))
            depths += _depths(topic, judged) / len(pool.topics)
        least = int(depths.argmin())
        rows.append(
            {
                "budget": budget,
                "unique": unique / found if found else None,
                "depth": float(depths.mean()),
                "depth_least": float(depths[least]),
                "least_run": pool.runs[least],
                "crowded": crowded / len(pool.topics),
            }
        )
    return pl.DataFrame(rows, schema_overrides={"unique": pl.Float64})


def _of_one_team(topic: Topic) -> NDArray[np.bool_]:
    """Which documents the runs of one team alone hold."""
    teams, starts = topic.pool.teams[topic.pool.holders], topic.pool.offsets[:-1]
    alone: NDArray[np.bool_] = np.minimum.reduceat(teams, starts) == np.maximum.reduceat(teams, starts)
    return alone


def _depths(topic: Topic, judged: NDArray[np.bool_]) -> NDArray[np.int64]:
    """How many documents of each run are judged, up to the first that is not."""
    ranking = topic.pool.ranking
    gaps = np.where(ranking >= 0, ~judged[ranking], True)
    first: NDArray[np.int64] = np.where(gaps.any(1), gaps.argmax(1), ranking.shape[1])
    return first
