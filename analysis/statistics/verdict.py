"""Concludes a study: which method to take, what it is better than, and which others may be the best, as facts.

`pyrite.analysis.reports.verdict_words` puts them into sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from pyrite.analysis.methods import UNTRAINED, evaluations, measurements, method_columns
from pyrite.analysis.statistics.before_training import untrained_twin
from pyrite.analysis.statistics.by_query import Queries, values_by_run
from pyrite.analysis.statistics.comparison import LEAST_SEEDS, LEVEL, MethodRuns, methods_of
from pyrite.analysis.statistics.method_comparison import Comparison, MethodTest, tested
from pyrite.analysis.statistics.paired import Floats, crossed_difference, differences, mean_difference
from pyrite.analysis.statistics.power import sample_of_both, seeds_of_a_test
from pyrite.analysis.statistics.summary import baseline_of
from pyrite.ranking.evaluation.significance import holm

SMALL = 0.01
"""The difference whose number of seeds is named if nothing can be told apart, unless the study has a margin."""


@dataclass(frozen=True)
class Lead:
    """By how much the recommended method is ahead, with an interval that holds for all methods at once."""

    against: str
    difference: float
    low: float
    high: float


@dataclass(frozen=True)
class Verdict:
    """The conclusion for one ranker on one collection, over one origin of candidates.

    Args:
        place: collection, ranker, candidates and measure.
        rows: the summary's rows, the baseline first and then by mean from the highest.
        baseline: the method that the user named; None if there is none here.
        take: the recommended method; None if the study can't recommend one.
        best: whether it is the best of all.
        better_than: the methods that it is better than.
        lead: its lead over the baseline, or over the next if it is the best without a baseline; None for another one.
        possible: the methods that may be the best, other than the recommended one.
        ahead: how far the best of these may be ahead of the reference, if one is.
        equal: methods that differ by less than the margin from the recommended one, or from the reference.
        seeds: the least number of seeds that two methods share, or of agents if one of them was learned several times.
        needed: the seeds that would show a small difference; None if that is not known, or no number is enough.
        queries: the test queries that would show it, if no number of seeds does; None otherwise.
        known_queries: the number of queries that are compared; 0 if values per query are not known.
        margin: the margin of `equal`, and the size of that difference.
        reference: the method that the others are compared with in the table: the baseline, or else the recommended one,
            or else the one that trains fastest of those that may be the best.
        tests: the tests against the reference, by method.
        limit: the number of test queries that the runs may take at most (`limits.test`); None if they take all.
        unit: what `seeds` and `needed` count: seeds, agents, or runs of several settings of each seed.
    """

    place: Mapping[str, str]
    rows: Sequence[Mapping[str, Any]]
    baseline: str | None = None
    take: str | None = None
    best: bool = False
    better_than: Sequence[str] = ()
    lead: Lead | None = None
    possible: Sequence[str] = ()
    ahead: float = 0.0
    equal: Sequence[str] = ()
    seeds: int = 0
    needed: int | None = None
    queries: int | None = None
    known_queries: int = 0
    margin: float = SMALL
    reference: str = ""
    tests: Mapping[str, MethodTest] = field(default_factory=dict)
    limit: int | None = None
    unit: str = "seeds"


@dataclass(frozen=True)
class OriginDependence:
    """Two origins of candidates with different recommended methods, whose difference is tested."""

    origins: tuple[str, str]
    methods: tuple[str, str]
    p: float


@dataclass(frozen=True)
class RankerTest:
    """A ranker against the first one of the study, trained with the same method."""

    ranker: str
    reference: str
    method: str
    collection: str  # empty if there is one
    test: MethodTest


@dataclass(frozen=True)
class Conclusion:
    """All verdicts of a study, by collection, ranker and origin.

    Args:
        origins: the pairs of origins whose recommended methods differ.
        rankers: the rankers compared with the study's first.
    """

    verdicts: Sequence[Verdict]
    origins: Sequence[OriginDependence] = ()
    rankers: Sequence[RankerTest] = ()


def conclude(
    trials: pl.DataFrame,
    summary: pl.DataFrame,
    queries: Queries | None = None,
    equal_within: float | None = None,
    test_limit: Callable[[str], int | None] | None = None,
) -> Conclusion:
    """Conclude a study by its leading measure.

    With a baseline, all methods are compared with it (Holm), and of those that are better and may be the best, the one
    that trains fastest is recommended. Without one, it is the one that trains fastest of those that may be the best
    (Hsu 1984), unless all may be. What it is better than is tested over all pairs (Holm).

    Args:
        summary: the frame of `pyrite.analysis.statistics.summary.summarise`, with its baseline.
        queries: the frame of `queries.parquet`; None compares runs alone.
        equal_within: the margin of the tests of equivalence; None makes none.
        test_limit: returns the most test queries that a run with these overrides may take (`limits.test`).
    """
    every, columns = measurements(trials), method_columns(trials)
    measure = evaluations(trials)[0][1]
    by_query = values_by_run(queries, trials, measure)
    rows = summary.filter(pl.col("measure") == measure, pl.col("ranker") != "bm25", pl.col("runs") > 0)
    places = rows.partition_by("collection", "ranker", as_dict=True, maintain_order=True)
    verdicts: list[Verdict] = []
    origins: list[OriginDependence] = []
    for (collection, ranker), of_ranker in places.items():
        compared: dict[str, Comparison] = {}
        concluded: dict[str, Verdict] = {}
        for (origin,), part in of_ranker.partition_by("candidates", as_dict=True, maintain_order=True).items():
            place = {"collection": collection, "ranker": ranker, "candidates": origin, "measure": measure}
            methods = methods_of(every.filter(**place), columns)
            family = {method: methods[method] for method in part["method"]}
            part, family = _with_untrained(part, family, summary, every.filter(**place))
            compared[origin] = Comparison(family, by_query.get(origin))
            verdict = verdict_of(compared[origin], place, part, equal_within)
            if verdict.queries is not None and test_limit is not None:
                of_place = trials.filter(collection=collection, ranker=ranker)
                verdict = replace(verdict, limit=next(map(test_limit, of_place["overrides"]), None))
            concluded[origin] = verdict
        verdicts += concluded.values()
        origins += _across_origins(concluded, compared)
    return Conclusion(verdicts, origins, _across_rankers(trials, every, by_query, measure, columns))


def _with_untrained(
    part: pl.DataFrame, family: dict[str, MethodRuns], summary: pl.DataFrame, results: pl.DataFrame
) -> tuple[pl.DataFrame, dict[str, MethodRuns]]:
    """Add the ranker before its training to the rows and methods of one place, if the user named it as the baseline."""
    if baseline_of(part) != UNTRAINED:
        return part, family
    place = part.select("collection", "ranker", "candidates", "measure").unique()
    rows = summary.filter(method=UNTRAINED).join(place, on=place.columns, how="semi")
    most = max(family.values(), key=lambda runs: len(runs.runs))
    twin = untrained_twin(most, results)
    if twin is None or len(rows) != 1:
        return part, family
    both = {**family, UNTRAINED: twin}
    return pl.concat([part, rows]), dict(sorted(both.items(), key=lambda item: -item[1].mean))


def verdict_of(
    comparison: Comparison, place: Mapping[str, str], part: pl.DataFrame, equal_within: float | None = None
) -> Verdict:
    """Conclude one place, from its methods and its rows of the summary (method, mean, seconds, and the baseline)."""
    named = part["baseline"].drop_nulls().unique().to_list() if "baseline" in part.columns else []
    baseline = named[0] if named and named[0] in comparison.methods else None
    rows = sorted(part.iter_rows(named=True), key=lambda row: (row["method"] != baseline, -row["mean"]))
    margin = SMALL if equal_within is None else equal_within
    verdict = Verdict(place, rows, baseline, margin=margin)
    if len(comparison.methods) < 2:
        return verdict
    seeds, unit = _paired_least(comparison)
    verdict = replace(verdict, seeds=seeds, unit=unit)
    if seeds < LEAST_SEEDS:
        return verdict
    costs = {row["method"]: row["seconds"] for row in rows}
    decided = _decided(comparison, verdict, costs)
    return _planned(comparison, decided if equal_within is not None else replace(decided, equal=()))


def _paired_least(comparison: Comparison) -> tuple[int, str]:
    """Return the least number of runs that two methods share, and its unit."""
    first, second = min(combinations(comparison.methods, 2), key=lambda pair: comparison.pair(*pair).pairs)
    runs = [run for method in (first, second) for run in comparison.methods[method].runs]
    seeds = comparison.pair(first, second).pairs
    agents = [{run.agent for run in comparison.methods[method].runs} for method in (first, second)]
    if max(map(len, agents)) > 1:
        return seeds, "agents"
    return seeds, "runs" if seeds > len({run.seed for run in runs}) else "seeds"


def _decided(comparison: Comparison, verdict: Verdict, costs: Mapping[str, float | None]) -> Verdict:
    """Return the verdict with what is recommended, and what can be concluded about the others."""
    pairs, best = comparison.all_pairs(verdict.margin), comparison.best
    worse = {(b, a) if test.difference > 0 else (a, b) for (a, b), test in pairs.items() if test.differs}

    def cheapest(methods: Sequence[str]) -> str:
        """The one that trains fastest of those that are worse than none of the others."""
        able = [method for method in methods if not any((method, other) in worse for other in methods)] or methods
        return min(able, key=lambda name: (costs[name] is None, costs[name] or 0.0, -comparison.methods[name].mean))

    baseline, lead = verdict.baseline, None
    tests: dict[str, MethodTest] = {} if baseline is None else comparison.against(baseline, verdict.margin)
    reference = take = baseline or cheapest(best.possible)
    if better := [method for method, test in tests.items() if test.is_better]:
        take = cheapest([method for method in better if method in best.possible] or better[:1])
        lead = Lead(reference, tests[take].difference, tests[take].low, tests[take].high)
    over_all = Lead(*comparison.lead(take))
    sole = len(best.possible) == 1
    if baseline is None and sole:
        lead = over_all
    beaten = [name for name in costs if name != take and (sole or (name, take) in worse)]
    if lead is not None and lead.against not in beaten:
        beaten = [lead.against, *beaten]
    of_take = {a if b == take else b: test for (a, b), test in pairs.items() if take in (a, b)}
    close = tests if take == baseline else of_take
    return replace(
        verdict,
        take=take if baseline is not None or beaten or len(best.possible) < len(costs) else None,
        best=sole,
        better_than=beaten,
        lead=lead,
        possible=[method for method in best.possible if method != take],
        ahead=best.ahead[take],
        equal=[method for method, test in close.items() if test.equal < LEVEL and method not in beaten],
        reference=reference,
        tests=tests or comparison.against_chosen(reference, verdict.margin),
    )


def _planned(comparison: Comparison, verdict: Verdict) -> Verdict:
    """Return the verdict with the sample that would show a small difference from the nearest other method."""
    take = verdict.take or verdict.reference
    pairs = [comparison.pair(method, take) for method in [*verdict.possible, *comparison.methods] if method != take]
    both = pairs[0].both
    values, first = comparison.by_query, comparison.methods[take].runs[0].name
    known = len(values[first]) if both is not None and values and first in values else 0
    needed: tuple[int | None, int | None] = (None, None)
    level = LEVEL / max(len(comparison.methods) - 1, 1)
    if verdict.unit == "agents":  # more agents alone do not help, as the other method's seeds vary too
        pass
    elif both is not None and both.error:
        needed = sample_of_both(both, known, verdict.margin, level)
    elif pairs[0].spread > 0:
        needed = seeds_of_a_test(verdict.margin, pairs[0].spread, level), None
    return replace(verdict, needed=needed[0], queries=needed[1], known_queries=known)


def _across_origins(verdicts: Mapping[str, Verdict], compared: Mapping[str, Comparison]) -> list[OriginDependence]:
    """Test whether the recommended method depends on the origin of the candidates.

    It does if two origins recommend different methods, whose difference has another sign in each, and the difference of
    these differences is tested (over seeds and queries, Holm over the pairs of origins).
    """
    found = []
    for one, other in combinations(verdicts, 2):
        a, b = verdicts[one].take, verdicts[other].take
        if a is None or b is None or a == b:
            continue
        families = (compared[one], compared[other])
        known = [differences(each.methods[a].runs, each.methods[b].runs, each.by_query) for each in families]
        if known[0].shape != known[1].shape or not len(known[0]) or not known[0].mean() > 0 > known[1].mean():
            continue
        between = known[0] - known[1]
        crossed = crossed_difference(between[:, ~np.isnan(between).any(0)]) if between.ndim == 2 else None
        by_run = between if between.ndim == 1 else np.nanmean(between, axis=1)
        p = mean_difference(by_run).p if crossed is None else crossed.p
        found.append(OriginDependence((one, other), (a, b), p))
    adjusted = holm(np.array([each.p for each in found], np.float64))
    return [replace(each, p=float(p)) for each, p in zip(found, adjusted, strict=True) if p < LEVEL]


def _across_rankers(
    trials: pl.DataFrame,
    every: pl.DataFrame,
    by_query: Mapping[str, Mapping[str, Floats]],
    measure: str,
    columns: Sequence[str],
) -> list[RankerTest]:
    """Compare rankers trained with the same method, on the leading origin, with the first ranker of the study."""
    origin = evaluations(trials)[0][0]
    here = every.filter(candidates=origin, measure=measure)
    several = every["collection"].n_unique() > 1
    tests = list[RankerTest]()
    for (collection,), part in here.partition_by("collection", as_dict=True, maintain_order=True).items():
        first, *others = part["ranker"].unique(maintain_order=True).to_list()
        against = methods_of(part.filter(ranker=first), columns)
        for other in others:
            family = methods_of(part.filter(ranker=other), columns)
            both = {
                name: {other: family[name], first: against[name]} for name in sorted(family.keys() & against.keys())
            }
            able = {name: runs for name, runs in both.items() if all(len(side.values) for side in runs.values())}
            pairs = [Comparison(runs, by_query.get(origin)).pair(other, first) for runs in able.values()]
            place = str(collection) if several else ""
            tests += [
                RankerTest(other, first, name, place, test)
                for name, test in zip(able, tested(pairs, SMALL), strict=True)
            ]
    return tests
