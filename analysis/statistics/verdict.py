"""Concludes a study: which method to take, what it is better than, and which others may be the best, as facts.

`pyrite.analysis.reports.verdict_words` puts them into sentences.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from pyrite.analysis.methods import UNTRAINED
from pyrite.analysis.statistics.before_training import untrained_twin
from pyrite.analysis.statistics.comparison import LEAST_SEEDS, LEVEL, MethodRuns, known_queries, unit_of
from pyrite.analysis.statistics.crossed import Floats, crossed_difference
from pyrite.analysis.statistics.method_comparison import MethodComparison, MethodTest, tested
from pyrite.analysis.statistics.paired import differences, mean_difference
from pyrite.analysis.statistics.places import Place, Places
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
        ahead: how far the best of these may be ahead of the reference, if one is; inf if nothing bounds it.
        equal: methods that differ by less than the margin from the recommended one, or from the reference.
        left_out: the methods that share too few seeds with the others to be tested.
        seeds: the least number of seeds that two of the others share, or of agents if one of them was learned several
            times.
        needed: the seeds that would show a small difference; None if that is not known, or no number is enough.
        queries: the test queries that would show it with this number of seeds, if none does alone; None otherwise.
        known_queries: the number of queries that are compared; 0 if values per query are not known.
        margin: the margin of `equal`, and the size of that difference.
        reference: the method that the others are compared with in the table: the baseline, or else the recommended one,
            or else the one that trains fastest of those that may be the best.
        tests: the tests against the reference, by method.
        limit: the number of test queries that the runs may take at most (`limits.test`); None if they take all.
        unit: what `seeds` and `needed` count: seeds, agents, or runs of several settings of each seed.
        trained: the name of the recommended method, or of the reference, and its test against the ranker before its
            training, in the family of all methods; None if that can't be tested, or is the baseline.
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
    left_out: Sequence[str] = ()
    seeds: int = 0
    needed: int | None = None
    queries: int | None = None
    known_queries: int = 0
    margin: float = SMALL
    reference: str = ""
    tests: Mapping[str, MethodTest] = field(default_factory=dict)
    limit: int | None = None
    unit: str = "seeds"
    trained: tuple[str, MethodTest] | None = None

    @property
    def seconds(self) -> dict[str, Any]:
        """The seconds that each method trains; None if they are not known."""
        return {row["method"]: row["seconds"] for row in self.rows}

    @property
    def is_over_all_pairs(self) -> bool:
        """Whether the tests are of all pairs; a baseline, or the best, is tested against the others alone."""
        return self.baseline is None and not self.best

    @property
    def chosen(self) -> str:
        """The recommended method, or else the reference; empty if there is neither."""
        return self.take or self.reference


@dataclass(frozen=True)
class OriginDependence:
    """Two origins of candidates with different recommended methods, whose difference is tested."""

    origins: tuple[str, str]
    methods: tuple[str, str]
    p: float
    collection: str = ""  # empty if there is one


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


TestLimit = Callable[[str], "int | None"]


def all_queries(overrides: str) -> None:
    """Return the limit of test queries of runs that have none."""


def conclude(
    places: Places,
    summary: pl.DataFrame,
    equal_within: float | None = None,
    test_limit: TestLimit = all_queries,
) -> Conclusion:
    """Conclude a study by its leading measure.

    With a baseline, all methods are compared with it (Holm), and of those that are better and may be the best, the one
    that trains fastest is recommended. Without one, it is the one that trains fastest of those that may be the best
    (Hsu 1984), unless all may be. What it is better than is tested over all pairs (Shaffer 1986), unless it is the best
    or a baseline that is kept. Methods that share fewer than LEAST_SEEDS seeds with others are left out.

    Args:
        summary: the frame of `pyrite.analysis.statistics.summary.summarise`, with its baseline.
        equal_within: the margin of the tests of equivalence; None makes none.
        test_limit: returns the most test queries that a run with these overrides may take (`limits.test`).
    """
    by_key = {tuple(place.key.values()): place for place in places.at(places.leading)}
    key = ["collection", "ranker", "candidates", "measure"]
    rows = summary.filter(measure=places.first[1]).filter(pl.col("ranker") != "bm25", pl.col("runs") > 0)
    if "baseline" in rows.columns:  # that of another ranker is none of the methods that a verdict chooses from
        is_own = pl.col("baseline_ranker") == pl.col("ranker")
        rows = rows.with_columns(baseline=pl.when(is_own).then("baseline"))
    verdicts: list[Verdict] = []
    origins: list[OriginDependence] = []
    for of_ranker in rows.partition_by("collection", "ranker", maintain_order=True):
        compared: dict[str, tuple[MethodComparison, Verdict]] = {}
        for part in of_ranker.partition_by("candidates", maintain_order=True):
            place = by_key[part.select(key).row(0)]
            part, family = _with_untrained(part, {name: place.methods[name] for name in part["method"]}, summary, place)
            comparison = MethodComparison(family, place.by_query)
            verdict = verdict_of(comparison, place.key, part, equal_within)
            verdict = _limited(verdict, family, places.trials, test_limit)
            verdict = replace(verdict, trained=_against_untrained(verdict, family, place))
            compared[place.key["candidates"]] = comparison, verdict
            verdicts.append(verdict)
        on = str(of_ranker[0, "collection"]) if rows["collection"].n_unique() > 1 else ""
        origins += [replace(dependence, collection=on) for dependence in _across_origins(compared)]
    return Conclusion(verdicts, origins, list(_across_rankers(places)))


def _limited(
    verdict: Verdict, family: Mapping[str, MethodRuns], trials: pl.DataFrame, test_limit: TestLimit
) -> Verdict:
    """Add to a verdict that asks for more queries how many the runs may take."""
    if verdict.queries is None:
        return verdict
    runs = trials.filter(pl.col("run").is_in([run.name for each in family.values() for run in each.runs]))
    return replace(verdict, limit=next(map(test_limit, runs["overrides"]), None))


def _with_untrained(
    part: pl.DataFrame, family: dict[str, MethodRuns], summary: pl.DataFrame, place: Place
) -> tuple[pl.DataFrame, dict[str, MethodRuns]]:
    """Add the ranker before its training to the rows and methods of one place, if the user named it as the baseline."""
    if baseline_of(part) != UNTRAINED:
        return part, family
    rows = summary.filter(method=UNTRAINED, **place.key)
    most = max(family.values(), key=lambda runs: len(runs.runs))
    twin = untrained_twin(most, place.results)
    if twin is None or len(rows) != 1:
        return part, family
    both = {**family, UNTRAINED: twin}
    return pl.concat([part, rows]), dict(sorted(both.items(), key=lambda item: -item[1].mean))


def _against_untrained(
    verdict: Verdict, family: Mapping[str, MethodRuns], place: Place
) -> tuple[str, MethodTest] | None:
    """Return the method that a verdict recommends or refers to, and its test against the ranker before its training."""
    method = verdict.chosen or next(iter(family))
    twin = None if UNTRAINED in family else untrained_twin(family[method], place.results)
    if twin is None or len(twin.runs) < LEAST_SEEDS:
        return None
    both = MethodComparison({**family, UNTRAINED: twin}, place.by_query)
    test = both.against(UNTRAINED, verdict.margin)[method]
    return None if math.isnan(test.p) else (method, test)


def verdict_of(
    comparison: MethodComparison, place: Mapping[str, str], part: pl.DataFrame, equal_within: float | None = None
) -> Verdict:
    """Conclude one place, from its methods and its rows of the summary (method, mean, seconds, and the baseline)."""
    named = baseline_of(part)
    baseline = named if named in comparison.methods else None
    rows = sorted(part.iter_rows(named=True), key=lambda row: (row["method"] != baseline, -row["mean"]))
    margin = SMALL if equal_within is None else equal_within
    verdict = Verdict(place, rows, baseline, margin=margin)
    if len(comparison.methods) < 2:
        return verdict
    comparison = _testable(comparison, baseline)
    left_out = [row["method"] for row in rows if row["method"] not in comparison.methods]
    seeds, unit = _paired_least(comparison)
    verdict = replace(verdict, left_out=left_out, seeds=seeds, unit=unit)
    if seeds < LEAST_SEEDS:
        return replace(verdict, known_queries=_known_queries(comparison, rows[0]["method"]))
    decided = Choice(comparison, verdict).verdict()
    return _planned(comparison, decided if equal_within is not None else replace(decided, equal=()))


def _testable(comparison: MethodComparison, baseline: str | None) -> MethodComparison:
    """Return the comparison of the methods that can be tested with each other, those that share the fewest runs with
    others left out first; of all, if that leaves no two. The baseline stays."""
    kept = comparison
    while len(kept.methods) > 2 and _paired_least(kept)[0] < LEAST_SEEDS:
        able = [
            method for method in reversed([*kept.methods]) if method != baseline
        ]  # of equal ones the lowest mean goes
        fewest = min(able, key=lambda method: sum(kept.pair(method, other).pairs for other in kept.others(method)))
        kept = comparison.of(kept.others(fewest))
    return kept if _paired_least(kept)[0] >= LEAST_SEEDS else comparison


def _paired_least(comparison: MethodComparison) -> tuple[int, str]:
    """Return the least number of runs that two methods share, and its unit."""
    first, second = min(combinations(comparison.methods, 2), key=lambda pair: comparison.pair(*pair).pairs)
    pairs = comparison.pair(first, second).pairs
    return pairs, unit_of(comparison.methods[first], comparison.methods[second], pairs)


COSTS = ("documents_read", "seconds")
"""What a method costs, first what repeats from run to run."""


def _known(cost: float | None) -> float:
    return math.inf if cost is None else cost


class Choice:
    """The choice of a method, and what can be concluded about the others.

    Args:
        comparison: the methods of one place.
        verdict: the verdict so far.
    """

    def __init__(self, comparison: MethodComparison, verdict: Verdict) -> None:
        self.comparison = comparison
        self.so_far = verdict
        self.pairs = comparison.all_pairs(verdict.margin)
        differing = {pair: test for pair, test in self.pairs.items() if test.differs}
        self.worse = {(b, a) if test.difference > 0 else (a, b) for (a, b), test in differing.items()}
        rows = [row for row in verdict.rows if row["method"] in comparison.methods]
        self.costs = {row["method"]: tuple(map(_known, map(row.get, COSTS))) for row in rows}

    def verdict(self) -> Verdict:
        """Return the verdict with the choice."""
        return self._of_all() if self.so_far.baseline is None else self._over_baseline(self.so_far.baseline)

    def cheapest(self, methods: Sequence[str]) -> str:
        """Return the method that costs least of those that are worse than none of the others."""
        beaten = {worse for worse, better in self.worse if better in methods}
        able = [method for method in methods if method not in beaten] or methods
        return min(able, key=lambda name: (self.costs[name], -self.comparison.methods[name].mean))

    def _of_all(self) -> Verdict:
        """Choose from those that may be the best; none if all may be."""
        best, comparison = self.comparison.best, self.comparison
        take = self.cheapest(best.possible)
        if len(best.possible) == 1:
            tests = comparison.against(take, self.so_far.margin)
            verdict = self._with(take, tests, self.costs, Lead(*comparison.lead(take)))
        else:
            tests = comparison.against_chosen(take, self.so_far.margin)
            verdict = self._with(take, tests, self._beaten(take))
        told = verdict.better_than or len(best.possible) < len(self.costs)
        return replace(verdict, take=take if told else None, reference=take, tests=tests)

    def _over_baseline(self, baseline: str) -> Verdict:
        """Choose from those that are better than the baseline, or else the baseline."""
        tests = self.comparison.against(baseline, self.so_far.margin)
        better = [method for method, test in tests.items() if test.direction > 0]
        if not better:
            worse = [method for method, test in tests.items() if test.direction < 0]
            return replace(self._with(baseline, tests, worse), reference=baseline, tests=tests)
        possible = self.comparison.best.possible
        take = self.cheapest([method for method in better if method in possible] or better[:1])
        lead = Lead(baseline, tests[take].difference, tests[take].low, tests[take].high)
        close = self.comparison.against_chosen(take, self.so_far.margin)
        beaten = self.costs if possible == [take] else self._beaten(take)
        return replace(self._with(take, close, [baseline, *beaten], lead), reference=baseline, tests=tests)

    def _with(
        self, take: str, close: Mapping[str, MethodTest], beaten: Iterable[str], lead: Lead | None = None
    ) -> Verdict:
        """Return the verdict that recommends a method, with its tests against the others.

        Args:
            beaten: the methods that it is better than; itself is no matter.
        """
        best, beaten = self.comparison.best, [method for method in dict.fromkeys(beaten) if method != take]
        return replace(
            self.so_far,
            take=take,
            best=best.possible == [take],
            better_than=beaten,
            lead=lead,
            possible=[method for method in best.possible if method != take],
            ahead=best.ahead[take],
            equal=[method for method, test in close.items() if test.equal < LEVEL and method not in beaten],
        )

    def _beaten(self, take: str) -> list[str]:
        """Return the methods that one is better than."""
        return [name for name in self.costs if (name, take) in self.worse]


def _planned(comparison: MethodComparison, verdict: Verdict) -> Verdict:
    """Return the verdict with the sample that would show a small difference from the nearest other method."""
    take = verdict.chosen
    nearest, *_ = *verdict.possible, *comparison.others(take)
    pair, level = comparison.pair(nearest, take), LEVEL / max(len(comparison.methods) - 1, 1)
    known = _known_queries(comparison, take) if pair.both.is_known else 0
    verdict = replace(verdict, known_queries=known)
    if verdict.unit == "agents":  # more agents alone do not help, as the other method's seeds vary too
        return verdict
    if pair.both.is_known and pair.both.error:
        needed, queries = sample_of_both(pair.both, verdict.seeds, known, verdict.margin, level)
        return replace(verdict, needed=needed, queries=queries)
    return replace(verdict, needed=seeds_of_a_test(verdict.margin, pair.spread, level)) if pair.spread > 0 else verdict


def _known_queries(comparison: MethodComparison, method: str) -> int:
    """Return the number of queries whose values are known for a method: those of other collections are NaN."""
    values = comparison.by_query.get(comparison.methods[method].runs[0].name, np.zeros(0))
    return int((~np.isnan(values)).sum())


def _across_origins(compared: Mapping[str, tuple[MethodComparison, Verdict]]) -> list[OriginDependence]:
    """Test whether the recommended method depends on the origin of the candidates.

    It does if two origins recommend different methods, whose difference has another sign in each, and the difference of
    these differences is tested (over seeds and queries, Holm over the pairs of origins).
    """
    chosen = [(origin, family, verdict.take) for origin, (family, verdict) in compared.items() if verdict.take]
    dependences = []
    for (one, first, a), (other, second, b) in combinations(chosen, 2):
        if not (_are_known(first, {a, b}) and _are_known(second, {a, b})):
            continue
        known = [differences(each.methods[a].runs, each.methods[b].runs, each.by_query) for each in (first, second)]
        if _turns(*known):
            dependences.append(OriginDependence((one, other), (a, b), _p_of(known[0] - known[1])))
    adjusted = holm(np.array([each.p for each in dependences], np.float64)).tolist()
    return [replace(each, p=p) for each, p in zip(dependences, adjusted, strict=True) if p < LEVEL]


def _are_known(family: MethodComparison, methods: set[str]) -> bool:
    """Return whether methods have runs at an origin, with values per query if any run there has them."""
    runs = {run.name for method in methods & family.methods.keys() for run in family.methods[method].runs}
    return methods <= family.methods.keys() and (not family.by_query or runs <= family.by_query.keys())


def _turns(first: Floats, second: Floats) -> bool:
    """Return whether two differences, of the same pairs, have different signs. Queries of other collections are NaN."""
    return first.shape == second.shape and len(first) > 0 and bool(np.nanmean(first) > 0 > np.nanmean(second))


def _p_of(between: Floats) -> float:
    """Return p of the mean of paired differences, over seeds and queries if these can be tested."""
    crossed = crossed_difference(known_queries(between))
    return crossed.p if crossed.is_known else mean_difference(np.nanmean(between.reshape(len(between), -1), axis=1)).p


def _across_rankers(places: Places) -> Iterator[RankerTest]:
    """Compare rankers trained with the same method, on the leading origin, with the first ranker of the study."""
    by_collection: dict[str, list[Place]] = {}
    for place in places.at():
        by_collection.setdefault(place.key["collection"], []).append(place)
    for collection, (first, *others) in by_collection.items():
        for other in others:
            rankers = other.key["ranker"], first.key["ranker"]
            shared = sorted(other.finished.keys() & first.finished.keys())
            both = [dict(zip(rankers, (other.finished[name], first.finished[name]), strict=True)) for name in shared]
            pairs = [MethodComparison(runs, other.by_query).pair(*rankers) for runs in both]
            on = collection if len(by_collection) > 1 else ""
            for name, test in zip(shared, tested(pairs, SMALL, holm), strict=True):
                yield RankerTest(*rankers, name, on, test)
