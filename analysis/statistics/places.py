"""Sorts the runs of a study by place, once: a ranker on a collection, over an origin of candidates, by a measure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import polars as pl

from pyrite.analysis.methods import (
    evaluations,
    evaluations_by_origin,
    is_learned,
    leading_evaluations,
    measurements,
    method_columns,
    with_methods,
)
from pyrite.analysis.statistics.by_query import Queries, values_by_run
from pyrite.analysis.statistics.comparison import MethodRuns, methods_of, named_baseline
from pyrite.analysis.statistics.crossed import Floats

COLUMN = ("collection", "candidates", "measure")
"""What the methods of a summary are listed by: one column of the table of results."""
Values = Mapping[str, Floats]
"""The values of each run by query, by its name."""


@dataclass(frozen=True)
class Place:
    """The runs of one ranker on one collection, over one origin of candidates, by one measure.

    Args:
        key: collection, ranker, candidates and measure.
        results: its rows of `measurements`.
        columns: the columns that identify a method.
        study: the study, which reads values per query when they are first needed.
    """

    key: Mapping[str, str]
    results: pl.DataFrame
    columns: Sequence[str]
    study: Places = field(repr=False)

    @property
    def column(self) -> dict[str, str]:
        """Collection, candidates and measure: the column of the table of results that it is in."""
        return {name: self.key[name] for name in COLUMN}

    @cached_property
    def methods(self) -> dict[str, MethodRuns]:
        """The runs of every method, by its name."""
        return methods_of(self.results, self.columns)

    @cached_property
    def finished(self) -> dict[str, MethodRuns]:
        """The methods that have finished runs."""
        return {method: runs for method, runs in self.methods.items() if len(runs.values)}

    @property
    def able(self) -> set[str]:
        """The methods that are not learned."""
        return {method for method, runs in self.methods.items() if not is_learned(runs.identity)}

    @property
    def by_query(self) -> Values:
        """The values of each run by query; empty if they are not known."""
        return self.study.values(self.key["measure"]).get(self.key["candidates"], {})


class Places:
    """The runs of a study by place.

    Args:
        trials: the frame of `trials.parquet`.
        queries: the frame of `queries.parquet`; None compares runs alone.
    """

    def __init__(self, trials: pl.DataFrame, queries: Queries | None = None) -> None:
        self.trials = trials
        self.queries: Queries = pl.DataFrame() if queries is None else queries
        self._values: dict[str, dict[str, dict[str, Floats]]] = {}

    @cached_property
    def results(self) -> pl.DataFrame:
        """All results (`measurements`)."""
        return measurements(self.trials)

    @cached_property
    def columns(self) -> list[str]:
        """The columns that identify a method."""
        return method_columns(self.trials)

    @property
    def leading(self) -> list[tuple[str, str]]:
        """The origins with the leading measure."""
        return leading_evaluations(self.trials)

    @property
    def first(self) -> tuple[str, str]:
        """The leading origin and measure."""
        return evaluations(self.trials)[0]

    def values(self, measure: str) -> dict[str, dict[str, Floats]]:
        """Return the values of a measure by origin and run (`values_by_run`)."""
        if measure not in self._values:
            self._values[measure] = values_by_run(self.queries, self.trials, measure)
        return self._values[measure]

    def named(self, baseline: str) -> tuple[str, set[str]]:
        """Find the method that a user names as the baseline, and its rankers (`named_baseline`)."""
        return named_baseline(with_methods(self.trials).select(self.columns).unique(), baseline)

    def at(self, evaluated: Iterable[tuple[str, str]] | None = None, finished: bool = False) -> Iterator[Place]:
        """Yield the places of some origins and measures, of the leading ones by default.

        Args:
            finished: whether failed runs are left out.
        """
        every = self.results.drop_nulls("value") if finished else self.results
        for candidates, measure in evaluations(self.trials)[:1] if evaluated is None else evaluated:
            here = every.filter(candidates=candidates, measure=measure)
            for (collection, ranker), results in here.partition_by("collection", "ranker", as_dict=True).items():
                key = {"collection": collection, "ranker": ranker, "candidates": candidates, "measure": measure}
                yield Place(key, results, self.columns, self)

    def in_order(self, finished: bool = False) -> list[Place]:
        """Return all places by collection, evaluation and ranker, as tables list them."""
        evaluated = evaluations_by_origin(self.trials)

        def order(place: Place) -> tuple[str, int, str]:
            key = place.key
            return key["collection"], evaluated.index((key["candidates"], key["measure"])), key["ranker"]

        return sorted(self.at(evaluated, finished), key=order)
