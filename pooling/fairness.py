"""Measures how fairly judgements treat runs and topics: documents that only one team found, judged depth per run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from pyrite.pooling.judging_order import JudgingOrder
from pyrite.pooling.pool import Pool

CROWDED = 1 / 3
"""Share of a topic's judged documents beyond which, if they are relevant, many more must be expected unjudged."""


def fairness(pool: Pool, order: JudgingOrder, budgets: Sequence[int]) -> pl.DataFrame:
    """Compute what Voorhees (2018, "On building fair and reusable test collections using bandit techniques") requires
    of a collection that a bandit built.

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
    turns = np.full(pool.size + 1, np.iinfo(np.int64).max)  # the last is that of a rank that a run does not have
    turns[order.flat] = order.places
    for cells, budgeted in zip(pool.cells, spent.T, strict=True):
        latest = np.maximum.accumulate(turns[cells], axis=1)  # when the last document down to each rank is judged
        depths += np.count_nonzero(latest < budgeted[:, None, None], axis=2) / len(pool.topics)
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
