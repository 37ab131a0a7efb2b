"""Measures how well partial judgements rank the runs, compared with the ranking by all judgements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pyrite.pooling.average_precision import PoolEvaluation
from pyrite.pooling.correlation import kendall_taus, largest_drops, tau_aps
from pyrite.pooling.judging_order import JudgingOrder
from pyrite.pooling.pool import Pool
from pyrite.ranking.errors import BadInput

Row = dict[str, int | float | str | None]

RUNS = {"dropped": pl.String, "inf_dropped": pl.String}
"""Types of the columns that name runs: they may be all null."""


class RankingQuality:
    """Measures judging orders of one pool against its full judgements, which are evaluated once."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.evaluation = PoolEvaluation(pool)
        self.full = self.evaluation.full().mean(0)
        self._relevant = np.array([topic.relevant for topic in pool.topics])

    def at(self, order: JudgingOrder, spent: NDArray[np.int64]) -> list[Row]:
        """Measure how well the first `spent[point, topic]` judgements of each topic rank the runs. Several points cost
        about as much as one.

        Means over topics are over all of them. A topic without a known relevant document gives each run 0.

        Returns:
            One row per point.

            judged, found: judgements, and relevant documents among them, per topic.
            recall: mean over topics of the share found of all relevant documents known, in the pool or not; topics
                without any are left out. NaN if no topic has any.
            lowest_recall: the recall of the topic with the least.
            tau, tau_ap: correlation of the runs' MAP with the judgements so far and their MAP with all of them.
            drop, dropped: most ranks that a run loses between the two, and which run (None if none does).
            bias: mean over runs of the one MAP minus the other.
            inf_…: the same with mean infAP instead of the MAP with the judgements so far.
        """
        ap, inf_ap, found = self.evaluation.spent(order, spent)
        recalls = self._recalls(found)
        columns: dict[str, list[Any]] = {
            "judged": spent.mean(1).tolist(),
            "found": found.mean(1).tolist(),
            "recall": recalls.mean(1).tolist(),
            "lowest_recall": recalls.min(1).tolist(),
        }
        columns |= self._compared("", ap.mean(1)) | self._compared("inf_", inf_ap.mean(1))
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def table(self, order: JudgingOrder, budgets: Sequence[int]) -> pl.DataFrame:
        """Measure at each budget (`pyrite.pooling.judging_order.JudgingOrder.spent`): one row per budget, with the
        budget first.
        """
        if min(budgets, default=1) < 1:
            raise BadInput(f"a budget of {min(budgets)} judgements", remedy="give 1 or more")
        rows = self.at(order, order.spent_at(budgets))
        rows = [{"budget": budget} | row for budget, row in zip(budgets, rows, strict=True)]
        return pl.DataFrame(rows, schema_overrides=RUNS)

    def _recalls(self, found: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the recall of each topic that has relevant documents, one NaN if none has: [points, such topics]."""
        some = self._relevant > 0
        if not some.any():
            return np.full((len(found), 1), np.nan)
        return np.ascontiguousarray(found[:, some] / self._relevant[some])

    def _compared(self, prefix: str, scores: NDArray[np.float64]) -> dict[str, list[Any]]:
        """Compare scores of the runs, [points, runs], with those by all judgements: columns by name."""
        drops = largest_drops(self.full, scores)
        columns: dict[str, list[Any]] = {
            "tau": kendall_taus(self.full, scores),
            "tau_ap": tau_aps(self.full, scores),
            "drop": [ranks for ranks, _ in drops],
            "dropped": [None if run is None else self.pool.runs[run] for _, run in drops],
            "bias": (scores - self.full).mean(1).tolist(),
        }
        return {prefix + name: values for name, values in columns.items()}
