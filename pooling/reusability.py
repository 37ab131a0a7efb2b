"""Tests whether judgements serve runs that took no part: leave out a team, judge without its runs, evaluate them.

The test is Zobel's (1998, "How reliable are the results of large-scale information retrieval experiments?", section 4),
by teams instead of runs, as a team's runs find much the same documents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pyrite.pooling.average_precision import PoolEvaluation
from pyrite.pooling.correlation import ranks
from pyrite.pooling.judging_order import JudgingOrder
from pyrite.pooling.pool import Pool, Topic, team_numbers, topic_pool
from pyrite.pooling.sentinels import NO_DOCUMENT
from pyrite.pooling.terms import rows_of
from pyrite.ranking.errors import BadInput, refuse


def without_team(pool: Pool, team: str) -> Pool:
    """Return the pool as it would be if a team had submitted no runs.

    Documents that only its runs held are removed, the others keep their order. The judgements stay the same, so the
    relevant documents of a topic that its pool now lacks are still counted in `Topic.relevant`.
    """
    stay = np.array(pool.teams) != team
    refuse(not stay.any(), f"all runs are of team {team!r}", remedy="give the runs' teams, or make each run a team")
    runs, teams = (
        [name for name, stays in zip(names, stay, strict=True) if stays] for names in (pool.runs, pool.teams)
    )
    topics = [_reduced(topic, stay, team_numbers(teams)) for topic in pool.topics]
    return Pool(topics, runs, teams, pool.depth, pool.relevant_from, pool.highest)


def leave_out_teams(
    pool: Pool,
    judge: Callable[[Pool], JudgingOrder],
    budgets: Sequence[int],
) -> pl.DataFrame:
    """Measure how the runs of each team fare when the pool is made and judged without them.

    A team's runs are evaluated together with all others, in three ways: with all judgements; with the judgements that
    the budget buys in the whole pool; and with those that it buys in the pool without the team, where documents that
    only the team's runs hold stay unjudged and so not relevant. The difference of the last two is the team's loss by
    not taking part; that of the first and the last includes the cost of the small budget for all teams.

    Args:
        judge: the adjudicator: judges a pool, by the same rules and seed each time.
        budgets: judgements per topic.

    Returns:
        One row per budget and run: budget, team, run; map_full, map_in and map_out, the MAP in each way; rank_full,
            rank_in and rank_out, the rank among all runs (1 is best, ties share the mean); and the cost of being left
            out: lost (map_in - map_out) and fallen (rank_out - rank_in). lost_full and fallen_full are the same against
            all judgements; a loss below 0 means that the MAP by few judgements is too high.
    """
    if min(budgets, default=1) < 1:
        raise BadInput(f"a budget of {min(budgets)} judgements", remedy="give 1 or more")
    evaluation = PoolEvaluation(pool)
    full = evaluation.full().mean(0)
    whole = judge(pool)
    by_all = evaluation.spent(whole, whole.spent_at(budgets)).ap.mean(1)
    frames = []
    for team in dict.fromkeys(pool.teams):
        order = judge(without_team(pool, team))
        stay = np.array(pool.teams) != team
        documents = [_of_whole(*of_topic, stay) for of_topic in zip(pool.topics, order.documents, strict=True)]
        by_others = evaluation.spent(JudgingOrder(documents), order.spent_at(budgets)).ap.mean(1)
        runs = np.flatnonzero(~stay)
        for budget, map_in, map_out in zip(budgets, by_all, by_others, strict=True):
            of_team = {
                f"{what}_{way}": values[runs]
                for way, scores in (("full", full), ("in", map_in), ("out", map_out))
                for what, values in (("map", scores), ("rank", ranks(scores)))
            }
            names = {"budget": [budget] * len(runs), "team": team, "run": [pool.runs[run] for run in runs]}
            frames.append(pl.DataFrame(names | of_team))
    return pl.concat(frames).with_columns(
        lost=pl.col("map_in") - pl.col("map_out"),
        fallen=pl.col("rank_out") - pl.col("rank_in"),
        lost_full=pl.col("map_full") - pl.col("map_out"),
        fallen_full=pl.col("rank_out") - pl.col("rank_full"),
    )


def _kept(topic: Topic, stay: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which documents of a topic one of the remaining runs holds: bool [documents]."""
    held = topic.pool.ranking[stay]
    kept = np.zeros(topic.pool.size, bool)
    kept[held[held != NO_DOCUMENT]] = True
    return kept


def _of_whole(topic: Topic, judged: NDArray[np.int32], stay: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Return the documents of a reduced topic by their numbers in the whole one, and after them those it lacks."""
    kept = _kept(topic, stay)
    return np.concatenate([np.flatnonzero(kept)[judged], np.flatnonzero(~kept)]).astype(np.int32)


def _reduced(topic: Topic, stay: NDArray[np.bool_], teams: NDArray[np.int32]) -> Topic:
    kept = _kept(topic, stay)
    # One entry more, which NO_DOCUMENT (-1) points at.
    renumbered = np.append(np.cumsum(kept, dtype=np.int32) - 1, np.int32(NO_DOCUMENT)).astype(np.int32)
    pool = topic_pool(renumbered[topic.pool.ranking[stay]], int(kept.sum()), teams)
    machine = topic.pool.machine[kept] if len(topic.pool.machine) else topic.pool.machine
    machine.flags.writeable = False
    pool = pool._replace(terms=rows_of(topic.pool.terms, kept), machine=machine)
    documents = topic.documents.filter(pl.Series(kept))
    return Topic(topic.name, pool, documents, topic.grades[kept], topic.judged[kept], topic.relevant)
