"""Pairs the runs of two methods that a contrast compares: those that are complete on both sides, on all collections."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from pyrite.analysis.statistics.comparison import MethodRuns
from pyrite.analysis.statistics.crossed import Floats
from pyrite.analysis.statistics.named_methods import NamedMethod
from pyrite.analysis.statistics.paired import MeasuredRun, complete_runs
from pyrite.analysis.statistics.places import Place

NO_PAIR = "no finished run of the same seed"
OTHER_QUERIES = "values of different queries"
Pair = tuple[NamedMethod, NamedMethod]
Units = Mapping[tuple[str, int], Sequence[MeasuredRun]]
"""The runs of each agent and seed."""


@dataclass(frozen=True)
class ComparedRuns:
    """The runs of two methods that are complete on both sides.

    Args:
        methods: both, with one run per agent and seed.
        by_query: the values of each of these runs, of the queries of one collection after another.
        planned: the number of the methods' runs, finished or not.
        compared: the number of runs that are compared.
        fault: the reason why nothing can be compared; empty if there is none.
    """

    methods: tuple[MethodRuns, MethodRuns]
    by_query: Mapping[str, Floats]
    planned: int
    compared: int
    fault: str


def compared_runs(pair: Pair, of_rankers: Sequence[Mapping[str, Place]]) -> ComparedRuns:
    """Return the runs of two methods that can be compared: of agents and seeds that have runs on all collections.

    Args:
        of_rankers: the places of each method's ranker by collection, over one origin of candidates and by one measure.
    """
    of_methods = [*zip(pair, of_rankers, strict=True)]
    planned = sum(len(each.results.filter(method=method.name)) for method, by in of_methods for each in by.values())
    complete = [*_complete(pair, of_rankers)]
    values = next((each.by_query for by in of_rankers for each in by.values()), {})
    known = [{np.isnan(values[run.name]).tobytes() for run in chain(*sides)} for sides in complete]
    methods, by_query, compared = list[MethodRuns](), dict[str, Floats](), 0
    for side, method in enumerate(pair):
        of_collections = [_units(sides[side]) for sides in complete]
        runs = list[MeasuredRun]()
        for agent, seed in sorted(set.intersection(*map(set, of_collections))) if complete else []:
            same = [of[agent, seed] for of in of_collections]
            name = f"{side} {agent} {seed}"
            by_query[name] = np.concatenate([np.mean([values[run.name] for run in each], axis=0) for each in same])
            runs.append(MeasuredRun(float(np.nanmean(by_query[name])), seed, agent, name=name))
            compared += sum(map(len, same))
        methods.append(MethodRuns({"ranker": method.ranker, "method": method.name}, runs))
    fault = OTHER_QUERIES if any(len(queries) > 1 for queries in known) else ""
    return ComparedRuns((methods[0], methods[1]), by_query, planned, compared, fault if compared else NO_PAIR)


def _complete(
    pair: Pair, of_rankers: Sequence[Mapping[str, Place]]
) -> Iterator[tuple[list[MeasuredRun], list[MeasuredRun]]]:
    """Yield the runs of both methods that have a counterpart, one collection after another."""
    for collection in sorted(of_rankers[0].keys() & of_rankers[1].keys()):
        places = [by[collection] for by in of_rankers]
        finished = [place.finished.get(method.name) for place, method in zip(places, pair, strict=True)]
        sides = [[run for run in each.runs if run.name in places[0].by_query] for each in finished if each is not None]
        if len(sides) == len(pair):
            yield complete_runs(*sides)


def _units(runs: Sequence[MeasuredRun]) -> Units:
    """Return the runs of each agent and seed."""
    units = defaultdict[tuple[str, int], list[MeasuredRun]](list)
    for run in runs:
        units[run.agent, run.seed].append(run)
    return units
