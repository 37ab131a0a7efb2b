"""Measures how fairly judgements treat runs and topics: documents that only one team found, judged depth per run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numba import njit

from pooling.judging_order import JudgingOrder
from pooling.pool import Pool

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
    spent = order.spent_at(budgets)
    own = order.found_after(pool.relevant, spent)
    found = own.sum(1)
    unique = order.found_after(pool.relevant & pool.of_one_team, spent).sum(1)
    crowded = (own > CROWDED * spent).sum(1)
    depths = np.zeros((len(budgets), len(pool.runs)))
    turns = np.empty(pool.size, np.int64)
    turns[order.flat] = order.places
    _add_depths(pool.cells, turns, spent, depths)
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


@njit(nogil=True, cache=True)
def _add_depths(cells, turns, spent, depths):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Add the ranks of each run that are judged without a gap after each of the budgets, divided by the topics.

    A rank that a run does not have is never judged.
    """
    topics, runs, length = cells.shape
    last = np.empty(length, np.int64)  # the turn at which the last of a run's first documents is judged
    for topic in range(topics):
        for run in range(runs):
            there, latest = 0, -1
            while there < length and cells[topic, run, there] < len(turns):
                latest = max(latest, turns[cells[topic, run, there]])
                last[there] = latest
                there += 1
            for budget in range(len(spent)):
                depths[budget, run] += np.searchsorted(last[:there], spent[budget, topic]) / topics
