"""Concludes a study: which method to take, what it is better than, what can't be told from it, and what each costs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import combinations
from operator import itemgetter
from typing import Any

import numpy as np
import polars as pl

from pyrite.analysis.methods import UNTRAINED, evaluations, measurements, method_columns
from pyrite.analysis.statistics.before_training import untrained_twin
from pyrite.analysis.statistics.by_query import Queries, values_by_run
from pyrite.analysis.statistics.comparison import MethodRuns, compare, compare_both, methods_of
from pyrite.analysis.statistics.paired import (
    CrossedDifference,
    Floats,
    crossed_difference,
    differences,
    mean_difference,
    p_equal,
)
from pyrite.analysis.statistics.power import sample_of_both, seeds_of_a_test
from pyrite.analysis.statistics.summary import LEAST_SEEDS, LEVEL, baseline_of
from pyrite.ranking.evaluation.significance import holm

SMALL = 0.01
"""The difference whose number of seeds is named if nothing can be told apart, unless the study has a margin."""
LISTED = 4
"""The most methods that a sentence names; of more it gives the number."""
SCHEMA: dict[str, Any] = dict.fromkeys(
    ("collection", "ranker", "candidates", "measure", "baseline", "take", "better_than", "alike", "equal", "sentence"),
    pl.String,
)
"""Columns of verdict.csv; several methods are joined by "; "."""


@dataclass(frozen=True)
class MethodTest:
    """A method against the reference.

    Args:
        difference: the method's mean less the reference's, over the runs that are paired.
        low, high: the 95% interval of the difference, for other seeds and queries if values per query are known.
        p: the probability if there is none, by Holm's method over the family; None if it can't be tested.
        equal: p of the test of equivalence.
        spread: the standard deviation of the pairs' differences.
        both: the comparison over seeds and queries; None if values per query are not known.
        queries: the number of queries that it compares.
    """

    difference: float
    low: float
    high: float
    p: float | None
    equal: float
    spread: float
    both: CrossedDifference | None
    queries: int

    @property
    def differs(self) -> bool:
        return self.p is not None and self.p < LEVEL

    @property
    def is_better(self) -> bool:
        return self.differs and self.difference > 0


@dataclass(frozen=True)
class Verdict:
    """The conclusion for one ranker on one collection, over one origin of candidates.

    Args:
        place: collection, ranker, candidates and measure.
        rows: the summary's rows, the baseline first and then by mean from the highest.
        baseline: the method that the user named; None if there is none here.
        take: the recommended method; None if the study can't recommend one.
        better_than: the methods that it is better than.
        alike: the methods that can't be told from it.
        equal: those of `alike` that differ by less than the margin from it, or from the best if none is recommended.
        seeds: the least number of seeds that two methods share, or of agents if one of them was learned several times.
        needed: the seeds that would show a small difference; None if that is not known, or no number is enough.
        queries: the test queries that would show it, if no number of seeds does; None otherwise.
        margin: the margin of `equal`, and the size of that difference.
        reference: the method that the others are compared with in the table: the baseline, or else the recommended one,
            or else the best.
        tests: the tests against the reference, by method.
        limit: the number of test queries that the runs may take at most (`limits.test`); None if they take all.
        unit: what `seeds` and `needed` count: seeds, agents, or runs of several settings of each seed.
    """

    place: Mapping[str, str]
    rows: Sequence[Mapping[str, Any]]
    baseline: str | None = None
    take: str | None = None
    better_than: Sequence[str] = ()
    alike: Sequence[str] = ()
    equal: Sequence[str] = ()
    seeds: int = 0
    needed: int | None = None
    queries: int | None = None
    margin: float = SMALL
    reference: str = ""
    tests: Mapping[str, MethodTest] = field(default_factory=dict)
    limit: int | None = None
    unit: str = "seeds"

    def sentence(self, names: Mapping[str, str] | None = None) -> str:
        """The verdict in words, with short names of methods if they are given."""

        def name(method: str) -> str:
            return (names or {}).get(method, method)

        def listed(methods: Sequence[str]) -> str:
            if len(methods) > LISTED:
                count = len(self.rows) - 1
                return f"all {count} others" if len(methods) == count else f"{len(methods)} of the {count} others"
            *others, last = map(name, methods)
            return f"{', '.join(others)} and {last}" if others else last

        def close_to(reference: str) -> str:
            differ = "differs" if len(self.equal) == 1 else "differ"
            return f"{listed(self.equal)} {differ} from {reference} by less than {_places(self.margin)}"

        if len(self.rows) < 2:
            return "There is one method, so there is nothing to compare."
        if not self.seeds:
            return "Nothing is tested: there are two methods without a run of the same seed and settings."
        if self.seeds < LEAST_SEEDS:
            count = self.unit if self.seeds != 1 else self.unit[:-1]
            option = f"seeds={LEAST_SEEDS}" if self.unit != "agents" else f"policy.agent=range(0,{LEAST_SEEDS})"
            return (
                f"Nothing is tested with {self.seeds} {count}: a difference can be marked from {LEAST_SEEDS} "
                f"{self.unit} on ({option}; --resume keeps the runs so far)."
            )
        enough = ""
        if self.queries is not None:
            here = max((test.queries for test in self.tests.values()), default=0)
            more = "; limits.test=null takes all" * (self.limit is not None and here >= self.limit)
            now = f" ({here:,} now{more})" if here else ""
            enough = f"at least {self.queries:,} test queries{now}; more {self.unit} alone are not enough"
        elif self.needed is not None and self.needed > self.seeds:
            known = any(test.both is not None for test in self.tests.values())
            enough = f"about {self.needed} {self.unit}" + (", for other queries too" if known else "")
        if enough:
            enough = f" To see a difference of {_places(self.margin)} takes {enough}."
        if self.take is None:
            parts = [f"No method can be told from the others with {self.seeds} {self.unit}"]
            if self.equal:
                parts.append(close_to(name(self.reference)))
            return "; ".join(parts) + "." + enough * (len(self.equal) < len(self.rows) - 1)
        keep = self.take == self.baseline
        parts = [f"{'Keep' if keep else 'Take'} {name(self.take)}"]
        if self.better_than:
            parts[0] += f": it is better than {listed(self.better_than)}{self._lead(name)}"
        elif keep:
            parts[0] += ": no method is shown to be better"
        others = [method for method in self.alike if method not in self.equal]
        if self.equal:
            parts.append(f"{close_to('it')}{self._price(self.equal)}")
        if others:
            parts.append(f"{listed(others)} can't be told from it{self._price(others)}")
        return "; ".join(parts) + "." + (enough if others and not self.better_than else "")

    def _lead(self, name: Callable[[str], str]) -> str:
        """By how much the recommended method is better, and its time, against the baseline or the only other one."""
        one = len(self.better_than) == 1
        if one or self.baseline in self.better_than:
            only = self.better_than[0] if one else self.baseline or ""
            # The tests are against the reference, which is either of the two.
            test, sign = (self.tests[only], -1) if only in self.tests else (self.tests[self.take or ""], 1)
            low, high = sorted((sign * test.low, sign * test.high))
            by = f"by {_places(sign * test.difference, '.4f')} (95%: {_places(low, '.4f')} to {_places(high, '.4f')})"
            price = self._price([self.take or ""], only)
            return f" {by}{price}" if one else f", than {name(only)} {by}{',' * bool(price)}{price}"
        means = {row["method"]: row["mean"] for row in self.rows}
        leads = [means[self.take or ""] - means[method] for method in self.better_than]
        return f", by {_places(min(leads), '.4f')} to {_places(max(leads), '.4f')}"

    def _price(self, methods: Sequence[str], than: str | None = None) -> str:
        """The training time of some methods in times of another one's; by default, of the recommended one's."""
        seconds = {row["method"]: row["seconds"] for row in self.rows}
        base = seconds.get(than or self.take or "")
        costs = [seconds[method] for method in methods]
        if not base or None in costs:
            return ""
        low, high = min(costs) / base, max(costs) / base
        verb = "take" + "s" * (len(methods) == 1)
        if low > 0.95 and high < 1.05:
            return f" and {verb} as long to train"
        span = f"{low:.1f}" if f"{low:.1f}" == f"{high:.1f}" else f"{low:.1f} to {high:.1f}"
        return f" and {verb} {span} times its time"


@dataclass(frozen=True)
class Conclusion:
    """All verdicts of a study, by collection, ranker and origin.

    Args:
        depends: sentences on the rankers whose verdict depends on what is ranked, or on which ranker is ahead.
    """

    verdicts: Sequence[Verdict]
    depends: Sequence[str]

    def table(self) -> pl.DataFrame:
        """The table in verdict.csv."""
        rows = [
            {
                **verdict.place, "baseline": verdict.baseline, "take": verdict.take, "sentence": verdict.sentence(),
                **{name: "; ".join(getattr(verdict, name)) for name in ("better_than", "alike", "equal")},
            }
            for verdict in self.verdicts
        ]  # fmt: skip
        return pl.DataFrame(rows, schema=SCHEMA)


def conclude(
    trials: pl.DataFrame,
    summary: pl.DataFrame,
    queries: Queries | None = None,
    equal_within: float | None = None,
    test_limit: Callable[[str], int | None] | None = None,
) -> Conclusion:
    """Conclude a study by its leading measure.

    The best method is compared with all others, over seeds and queries, by Holm's method. Of those that can't be told
    from it, and that are better than the baseline if any are, the one that trains fastest is recommended.

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
    depends: list[str] = []
    for (collection, ranker), of_ranker in places.items():
        families: dict[str, dict[str, MethodRuns]] = {}
        concluded: dict[str, Verdict] = {}
        for (origin,), part in of_ranker.partition_by("candidates", as_dict=True, maintain_order=True).items():
            place = {"collection": collection, "ranker": ranker, "candidates": origin, "measure": measure}
            methods = methods_of(every.filter(**place), columns)
            families[origin] = {method: methods[method] for method in part["method"]}
            part, families[origin] = _with_untrained(part, families[origin], summary, every.filter(**place))
            verdict = _verdict(place, part, families[origin], by_query.get(origin), equal_within)
            if verdict.queries is not None and test_limit is not None:
                of_place = trials.filter(collection=collection, ranker=ranker)
                verdict = replace(verdict, limit=next(map(test_limit, of_place["overrides"]), None))
            concluded[origin] = verdict
        verdicts += concluded.values()
        depends += _dependence(concluded, families, by_query)
    return Conclusion(verdicts, depends + _across_rankers(trials, every, by_query, measure, columns))


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


def _verdict(
    place: Mapping[str, str],
    part: pl.DataFrame,
    family: Mapping[str, MethodRuns],
    values: Mapping[str, Floats] | None,
    equal_within: float | None,
) -> Verdict:
    named = part["baseline"].drop_nulls().unique().to_list() if "baseline" in part.columns else []
    baseline = named[0] if named and named[0] in family else None
    rows = sorted(part.iter_rows(named=True), key=lambda row: (row["method"] != baseline, -row["mean"]))
    margin = SMALL if equal_within is None else equal_within
    if len(family) < 2:
        return Verdict(place, rows, baseline)
    seeds, pair = min(
        ((len(differences(a.runs, b.runs)), (a, b)) for a, b in combinations(family.values(), 2)), key=itemgetter(0)
    )
    learned = any(len({run.agent for run in method.runs}) > 1 for method in pair)
    settings = seeds > len({run.seed for method in pair for run in method.runs})
    unit = "agents" if learned else "runs" if settings else "seeds"
    verdict = Verdict(place, rows, baseline, seeds=seeds, margin=margin, unit=unit)
    if seeds < LEAST_SEEDS:
        return verdict

    @cache
    def against(reference: str) -> dict[str, MethodTest]:
        return _tests(family, reference, values, margin)

    best = next(iter(family))
    alike = [best, *(method for method, test in against(best).items() if not test.differs)]
    able = alike
    if baseline is not None:
        able = [method for method in alike if method != baseline and against(baseline)[method].is_better] or [baseline]
    take, better = None, list[str]()
    if baseline is not None or len(alike) < len(family):
        seconds = {row["method"]: row["seconds"] for row in rows}
        take = min(able, key=lambda method: (seconds[method] is None, seconds[method] or 0.0, -family[method].mean))
        if take != baseline and any(test.is_better for test in against(take).values()):
            take = max(able, key=lambda method: family[method].mean)
        # Better than the baseline by Holm's method over the baseline's family, which the table shows.
        better = [m for m, test in against(take).items() if (test.differs and test.difference < 0) or m == baseline]
        alike = [m for m, test in against(take).items() if not test.differs and m not in better]
    tests = against(take or best)
    nearest = next((tests[method] for method in alike if method in tests), None)
    needed, queries = _needed(nearest, len(family), margin) if nearest else (None, None)
    reference = baseline or take or best
    return replace(
        verdict,
        take=take,
        better_than=better,
        alike=alike,
        equal=[m for m in alike if m in tests and equal_within is not None and tests[m].equal < LEVEL],
        needed=needed,
        queries=queries,
        reference=reference,
        tests=against(reference),
    )


def _tests(
    family: Mapping[str, MethodRuns], reference: str, values: Mapping[str, Floats] | None, margin: float
) -> dict[str, MethodTest]:
    """Test all other methods against the reference, over seeds and queries if values per query are known."""
    others = [runs for method, runs in family.items() if method != reference]
    compared = compare(others, {runs.method: family[reference] for runs in others}, values, margin)
    tests = {}
    for runs in others:
        row = compared[runs.method]
        p = row["paired_p_holm"] if row["p_both_holm"] is None else row["p_both_holm"]
        pairs = differences(runs.runs, family[reference].runs)
        spread = float(pairs.std(ddof=1)) if len(pairs) > 1 else math.nan
        equal = row["equal_p"]
        if equal is None:
            error = spread / math.sqrt(max(len(pairs), 1))
            equal = 1.0 if math.isnan(error) else p_equal(float(pairs.mean()), error, len(pairs) - 1, margin)
        low, high = row["low_both"], row["high_both"]
        if low is None or high is None:
            _, low, high, _, _ = mean_difference(pairs)
        both = compare_both(runs, family[reference], values)
        queries = len(values[runs.runs[0].name]) if both and values else 0
        both = both if both and both.error else None  # runs that never differ have no error to plan with
        # The middle of its interval, which differs from the difference of the means if some runs have no pair.
        difference = (row["difference"] or 0.0) if math.isnan(low) else (low + high) / 2
        tests[runs.method] = MethodTest(difference, low, high, p, equal, spread, both, queries)
    return tests


def _needed(test: MethodTest, methods: int, difference: float) -> tuple[int | None, int | None]:
    """The seeds, or else the queries, that show a difference, at 80% power, if all methods are compared with one."""
    level = LEVEL / max(methods - 1, 1)
    if test.both is not None:
        return sample_of_both(test.both, test.queries, difference, level)
    return (seeds_of_a_test(difference, test.spread, level) if test.spread > 0 else None), None


def _dependence(
    verdicts: Mapping[str, Verdict],
    families: Mapping[str, Mapping[str, MethodRuns]],
    by_query: Mapping[str, Mapping[str, Floats]],
) -> list[str]:
    """Test whether the recommended method depends on the origin of the candidates.

    It does if two origins recommend different methods, whose difference has another sign in each, and the difference of
    these differences is tested (over seeds and queries, Holm over the pairs of origins).
    """
    pairs, tests = [], []
    for one, other in combinations(verdicts, 2):
        a, b = verdicts[one].take, verdicts[other].take
        if a is None or b is None or a == b:
            continue
        known = [
            differences(families[origin][a].runs, families[origin][b].runs, by_query.get(origin))
            for origin in (one, other)
        ]
        if known[0].shape != known[1].shape or not len(known[0]) or not known[0].mean() > 0 > known[1].mean():
            continue
        between = known[0] - known[1]
        crossed = crossed_difference(between[:, ~np.isnan(between).any(0)]) if between.ndim == 2 else None
        by_run = between if between.ndim == 1 else np.nanmean(between, axis=1)
        pairs.append((one, a, other, b))
        tests.append(mean_difference(by_run).p if crossed is None else crossed.p)
    return [
        f"It depends on the candidates (p = {p:.2g}): take {a} over {one} candidates, {b} over {other} candidates."
        for (one, a, other, b), p in zip(pairs, holm(np.array(tests, np.float64)), strict=True)
        if p < LEVEL
    ]


def _across_rankers(
    trials: pl.DataFrame,
    every: pl.DataFrame,
    by_query: Mapping[str, Mapping[str, Floats]],
    measure: str,
    columns: Sequence[str],
) -> list[str]:
    """Compare rankers trained with the same method, on the leading origin, with the first ranker of the study."""
    origin = evaluations(trials)[0][0]
    here = every.filter(candidates=origin, measure=measure)
    sentences = []
    for (collection,), part in here.partition_by("collection", as_dict=True, maintain_order=True).items():
        rankers = part["ranker"].unique(maintain_order=True).to_list()
        for other in rankers[1:]:
            against, family = (methods_of(part.filter(ranker=ranker), columns) for ranker in (rankers[0], other))
            shared = [family[name] for name in sorted(family.keys() & against.keys()) if len(against[name].values)]
            compared = compare(shared, against, by_query.get(origin))
            several = f" on {collection}" if every["collection"].n_unique() > 1 else ""
            sentences += [
                _ranker_sentence(f"{other} with {method}{several}", rankers[0], row) for method, row in compared.items()
            ]
    return sentences


def _ranker_sentence(name: str, reference: str, row: Mapping[str, float | None]) -> str:
    pairs, difference = row["pairs"] or 0, row["difference"] or 0.0
    p = row["paired_p_holm"] if row["p_both_holm"] is None else row["p_both_holm"]
    low, high = row["low_both"], row["high_both"]
    interval = f" ({_places(low, '+.4f')} to {_places(high, '+.4f')})" if low is not None and high is not None else ""
    figures = f"{_places(difference, '+.4f')}{interval}" + ("" if p is None else f", p = {p:.2g}")
    if pairs < LEAST_SEEDS:
        return f"{name} against {reference}: {figures}; nothing is tested with fewer than {LEAST_SEEDS} seeds."
    if p is None or p >= LEVEL:
        return f"{name} can't be told from {reference}: {figures}."
    return f"{name} is {'better' if difference > 0 else 'worse'} than {reference}: {figures}."


def _places(number: float, form: str = "g") -> str:
    """A number without the zero before its point."""
    return re.sub(r"^([+-]?)0\.", r"\1.", f"{number:{form}}")
