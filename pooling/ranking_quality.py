"""Measures how well partial judgements rank the runs, beside the ranking that all judgements give."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pooling.average_precision import Evaluation
from pooling.correlation import kendall_tau, largest_drop, tau_ap
from pooling.judging_order import JudgingOrder
from pooling.pool import Pool
from ranking.errors import BadInput

Row = dict[str, int | float | str | None]

RUNS = {"dropped": pl.String, "inf_dropped": pl.String}
"""Measures how well partial judgements rank the runs, beside the ranking that all judgements give."""


class RankingQuality:
    """Measures judging orders of one pool against its full judgements; what does not depend on an order is ready.

    Args:
        pool: with its judgements.
    """

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.evaluation = Evaluation(pool)
        self.full = self.evaluation.full().mean(0)
        self._relevant = np.array([topic.relevant for topic in pool.topics])

    def at(self, order: JudgingOrder, spent: NDArray[np.int64]) -> Row:
        """How well the first `spent[topic]` judgements of each topic rank the runs.

        Means over topics are over all of them. A topic of which nothing relevant is known yet gives each run 0.

        Args:
            order: of the pool.
            spent: int64 [topics].

        Returns:
            judged, found: judgements, and relevant documents among them, a topic.
            recall: mean over topics of the share found of all relevant documents known, in the pool or not; topics
                that have none are left out. NaN where no topic has any.
            lowest_recall: of the topic with the least.
            tau, tau_ap: correlation of the runs' MAP with the judgements so far and their MAP with all of them.
            drop, dropped: most ranks that a run loses between the two, and which run (None where none does).
            bias: mean over runs of the one MAP less the other.
            inf_…: the same with mean infAP in place of the MAP with the judgements so far.
        """
        states = self.evaluation.states(order, spent)
        found = self.evaluation.found(states)
        recalls = self._recalls(found)
        values = self.evaluation(states)
        row: Row = {"judged": float(spent.mean()), "found": float(found.mean())}
        row |= {"recall": float(recalls.mean()), "lowest_recall": float(recalls.min())}
        return row | self._compared("", values.ap.mean(0)) | self._compared("inf_", values.inf_ap.mean(0))

    def table(self, order: JudgingOrder, budgets: Sequence[int]) -> pl.DataFrame:
        """`at` each budget (`JudgingOrder.spent`), a row each, with the budget first.

        Raises:
            BadInput: a budget below 1.
        """
        if min(budgets, default=1) < 1:
            raise BadInput(f"a budget of {min(budgets)} judgements", remedy="give 1 or more")
        rows: list[Row] = [{"budget": budget} | self.at(order, order.spent(budget)) for budget in budgets]
        return pl.DataFrame(rows, schema_overrides=RUNS)

    def _recalls(self, found: NDArray[np.int64]) -> NDArray[np.float64]:
        """Recall of each topic that has relevant documents; a NaN where none has."""
        some = self._relevant > 0
        return found[some] / self._relevant[some] if some.any() else np.array([float("nan")])

    def _compared(self, prefix: str, scores: NDArray[np.float64]) -> Row:
        drop = largest_drop(self.full, scores)
        row: Row = {
            "tau": kendall_tau(self.full, scores),
            "tau_ap": tau_ap(self.full, scores),
            "drop": drop.ranks,
            "dropped": None if drop.run is None else self.pool.runs[drop.run],
            "bias": float((scores - self.full).mean()),
        }
        return {prefix + name: value for name, value in row.items()}


def ranking_quality(pool: Pool, order: JudgingOrder, budgets: Sequence[int]) -> pl.DataFrame:
    """How well the judgements of one order rank the runs at each budget; for several orders keep a `RankingQuality`.

    Args:
        pool: with its judgements.
        order: of the pool.
        budgets: judgements a topic.

    Returns:
        A row a budget: budget, then the columns of `RankingQuality.at`.

    Raises:
        BadInput: a budget below 1.
    """
    return RankingQuality(pool).table(order, budgets)
