"""Compares the methods of a study: its runs are paired once, and every analysis is a method."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from pyrite.analysis.statistics.across_places import across_places
from pyrite.analysis.statistics.best_two import best_two
from pyrite.analysis.statistics.contrasts import planned_contrasts
from pyrite.analysis.statistics.places import Places
from pyrite.analysis.statistics.power import power
from pyrite.analysis.statistics.seed_variation import seed_variation
from pyrite.analysis.statistics.sequential import SequentialRule, decisions
from pyrite.analysis.statistics.summary import summarise
from pyrite.analysis.statistics.verdict import Conclusion, TestLimit, all_queries, conclude


class Comparison(Places):
    """A comparison of the methods of a study.

    Args:
        trials: the frame of `trials.parquet`.
        queries: the frame of `queries.parquet`; None compares runs alone.
    """

    def summary(self, baseline: str | None = None, equal_within: float | None = None) -> pl.DataFrame:
        """Return the mean, spread and tests of each method (`summarise`)."""
        return summarise(self, baseline, equal_within)

    def verdict(
        self, summary: pl.DataFrame, equal_within: float | None = None, test_limit: TestLimit = all_queries
    ) -> Conclusion:
        """Return which methods to take (`conclude`)."""
        return conclude(self, summary, equal_within, test_limit)

    def contrasts(self, requested: Sequence[str], equal_within: float | None = None) -> tuple[pl.DataFrame, list[str]]:
        """Return the differences that were named beforehand, and lines on those that can't be made."""
        return planned_contrasts(self, requested, equal_within)

    def decisions(self, rule: SequentialRule, baseline: str | None = None) -> pl.DataFrame:
        """Return what a sequential study has decided."""
        return decisions(self, rule, baseline)

    def power(self, rule: SequentialRule | None = None) -> pl.DataFrame:
        """Return the seeds that it takes to see differences."""
        return power(self, rule)

    def spread(self, line: float | None = None) -> pl.DataFrame:
        """Return how far the runs of each method spread (`seed_variation`)."""
        return seed_variation(self, line)

    def across(self, baseline: str | None = None) -> pl.DataFrame:
        """Return the differences over collections and rankers (`across_places`)."""
        return across_places(self, baseline)

    def by_query(self, summary: pl.DataFrame, measure: str) -> pl.DataFrame:
        """Return the differences of the two best methods of each ranker by query (`best_two`)."""
        return best_two(self, summary, measure)
