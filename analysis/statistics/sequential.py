"""Decides, after each seed, which methods of a family are better, worse or equal, and which need another seed.

Methods are compared by the differences of their runs, paired by seed, each cut off at `clip`: the mean of unbounded
differences could never be decided with tens of seeds, for one run in a hundred may lose everything. Unless the bound is
given, the spread of the first seeds sets it, and those seeds are no evidence themselves. A decision holds however often
one has looked (`pyrite.ranking.evaluation.anytime`), and whichever method turns out to be the best baseline.

The chance that any pair without a difference is declared different is at most α, and so is the chance that any pair
declared equal differs by `equal_within` or more (Holm over the pairs, each).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, combinations, product
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pyrite.analysis.methods import FIRST_SEEDS
from pyrite.analysis.statistics.comparison import compare_both
from pyrite.analysis.statistics.crossed import Floats, mean
from pyrite.analysis.statistics.paired import by_seed, values_by_seed
from pyrite.analysis.statistics.places import Places
from pyrite.ranking.errors import BadInput
from pyrite.ranking.evaluation.anytime import FRACTIONS, confidence_sequence, p_values
from pyrite.ranking.evaluation.significance import holm

Decision = Literal["better", "worse", "equal", "open"]
TURNED: Mapping[Decision, Decision] = {"better": "worse", "worse": "better"}
ALPHA = 0.05
SPREADS = 2.5
"""`clip`, in standard deviations of a pair's differences, if it is not given."""
CLIPS = (2.0, 5.0)
"""The lowest and highest value that `clip` then takes, in multiples of `equal_within`."""
HOPELESS = 2.0
"""After half of its seeds, a comparison gets no more if it is expected to take this multiple of those left."""
Values = Mapping[str, Mapping[int, float]]
"""The result of each method, by seed."""
SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("collection", "ranker", "candidates", "measure", "method", "against", "verdict"), pl.String),
    **dict.fromkeys(("difference", "low", "high", "bound", "p"), pl.Float64),
    "seeds": pl.Int64,
    "more": pl.Float64,
    **dict.fromkeys(("low_both", "high_both", "p_both"), pl.Float64),
}
"""Columns of decisions.parquet."""


@dataclass(frozen=True)
class SequentialRule:
    """When a comparison is decided.

    Args:
        equal_within: a difference too small to matter in practice.
        clip: the bound of a seed's difference; None: set by the first seeds.
        most: the highest number of seeds per method.
        first: seeds of every method before anything is decided; if `clip` is not given, they set it.
    """

    equal_within: float = 0.01
    clip: float | None = None
    most: int = 40
    first: int = FIRST_SEEDS

    @classmethod
    def of_options(cls, options: Mapping[str, Any]) -> SequentialRule:
        """The rule in a study's options."""
        return cls(options["equal_within"], options["clip"], options["max_seeds"])

    def of_spread(self, spread: float) -> float:
        """The bound of a seed's difference if differences have this standard deviation."""
        if self.clip is not None:
            return self.clip
        least, most = (times * self.equal_within for times in CLIPS)
        return min(max(SPREADS * spread, least), most)


@dataclass(frozen=True)
class SequentialComparison:
    """The evidence on two methods.

    Args:
        verdict: the decision on the first method against the second.
        difference: the mean over the common seeds, without the bound.
        low, high: bounds of the mean difference, cut off at `bound`, whenever one stops. Their level is that of the
            decision: for a pair that is equal they lie within the margin, for one that differs on one side of 0.
        bound: the highest absolute difference of a seed.
        seeds: the seeds that both have, with those that set the bound.
        p: the probability if they do not differ, valid whenever one stops, adjusted by Holm's method.
        more: the seeds that it is expected to take yet; None if it is decided, infinity if it will not be.
    """

    verdict: Decision
    difference: float
    low: float
    high: float
    bound: float
    seeds: int
    p: float
    more: float | None

    def turned(self) -> SequentialComparison:
        """Return the evidence on the second method against the first."""
        verdict = TURNED.get(self.verdict, self.verdict)
        return replace(self, verdict=verdict, difference=-self.difference, low=-self.high, high=-self.low)


def compare_all(
    values: Values, baselines: Collection[str], rule: SequentialRule, intervals: bool = True
) -> dict[tuple[str, str], SequentialComparison]:
    """Compare every method with every baseline, by pairs (method, baseline): the verdict is the method's.

    Args:
        intervals: whether to compute intervals, which take most of the time.
    """
    pairs = [pair for pair in combinations(sorted(values), 2) if not set(baselines).isdisjoint(pair)]
    seeds = sorted(set().union(*values.values()))
    pilot = set(seeds[: rule.first]) if rule.clip is None else set[int]()
    bound = _bound(values, pairs, pilot, rule)
    evidence = [_of_seeds(values, a, b, values[a].keys() - pilot) for a, b in pairs]
    tested = np.array([_tested(part, rule.equal_within, bound) for part in evidence], np.float64)
    differ, equal = tested.reshape(-1, 2).T
    tests = map(PairTests, holm(differ), holm(equal), _steps(differ), _steps(equal))
    compared: dict[tuple[str, str], SequentialComparison] = {}
    for (a, b), part, test in zip(pairs, evidence, tests, strict=True):
        pair = SequentialPair(by_seed(values[a], values[b]), part, bound, rule, test)
        one = pair.compared(intervals, len(pairs))
        compared |= {(a, b): one, (b, a): one.turned()}
    return {pair: compared[pair] for pair in compared if pair[1] in baselines}


def _bound(values: Values, pairs: Sequence[tuple[str, str]], pilot: Set[int], rule: SequentialRule) -> float:
    """Return the bound of a seed's difference, by the spread of the first seeds."""
    first = [_of_seeds(values, a, b, pilot) for a, b in pairs]
    spreads = [part.std(ddof=1) for part in first if len(part) > 1]
    return rule.of_spread(float(np.median(spreads or [math.inf])))


class PairTests(NamedTuple):
    """The tests of a pair: p of a difference and of equality, by Holm's method, and his multipliers of both."""

    p: float
    equal: float
    step: int
    equal_step: int


@dataclass(frozen=True)
class SequentialPair:
    """The differences of two methods, and what follows from them.

    Args:
        every: the differences of all seeds that both have.
        evidence: those that do not set the bound.
        bound: the highest absolute difference of a seed.
    """

    every: Floats
    evidence: Floats
    bound: float
    rule: SequentialRule
    tests: PairTests

    def compared(self, intervals: bool, pairs: int) -> SequentialComparison:
        """Return the comparison, one of a number of pairs."""
        verdict, count = self._verdict(), len(self.every)
        low, high = self._interval(verdict) if intervals and len(self.evidence) else (-self.bound, self.bound)
        more = self._more(pairs) if verdict == "open" else None
        return SequentialComparison(verdict, mean(self.every), low, high, self.bound, count, float(self.tests.p), more)

    def _verdict(self) -> Decision:
        if len(self.every) < self.rule.first:
            return "open"
        if self.tests.p <= ALPHA:
            return "better" if mean(np.clip(self.evidence, -self.bound, self.bound)) > 0 else "worse"
        return "equal" if self.tests.equal <= ALPHA else "open"

    def _interval(self, verdict: Decision) -> tuple[float, float]:
        margin, bound = self.rule.equal_within, self.bound
        # Two one-sided tests at α have the interval of 1 - 2α, and Holm's step divides α.
        level = 2 * ALPHA / self.tests.equal_step if verdict == "equal" else ALPHA / self.tests.step
        low, high = (float(side[-1]) for side in confidence_sequence(self.evidence, 1 - level, -bound, bound))
        # By a step of the grid of means that the bounds are on.
        return (max(low, -margin), min(high, margin)) if verdict == "equal" else (low, high)

    def _more(self, pairs: int) -> float:
        """Return the seeds that an open comparison is expected to take yet."""
        count = len(self.every)
        if not count:
            return math.inf
        # Without evidence the seeds that set the bound forecast, and as many come again.
        known, again = (self.evidence, 0) if len(self.evidence) else (self.every, count)
        return _forecast(known, self.rule.equal_within, self.bound, max(pairs, 1)) + again


def best_baseline(values: Values, baselines: Collection[str], other_than: str = "") -> str | None:
    """Return the baseline with the highest mean over the seeds that all share, or over the seeds of each if none."""
    able = [name for name in baselines if values.get(name) and name != other_than]
    every = [values[name] for name in able]
    common = set[int]().union(*every).intersection(*every)
    means = {name: float(np.mean([values[name][seed] for seed in sorted(common or values[name])])) for name in able}
    return min(able, key=lambda name: (-means[name], name), default=None)


def contenders(values: Values, baselines: Collection[str], named: Collection[str], rule: SequentialRule) -> set[str]:
    """Return the methods that need another seed: those in an open comparison that is not hopeless, and their opponents.

    So methods leave as they are decided, and seeds go to those that may still be the best (successive elimination).
    """
    compared = _compare(values, baselines, named, rule, intervals=False)
    undecided = [(pair, methods) for *methods, pair in compared if pair.verdict == "open"]
    return set(chain(*(methods for pair, methods in undecided if not hopeless(pair.seeds, pair.more, rule))))


def _compare(
    values: Values, baselines: Collection[str], named: Collection[str], rule: SequentialRule, intervals: bool
) -> Iterator[tuple[str, str, SequentialComparison]]:
    """Yield each method, an opponent (the best other baseline, and the named ones), and the method's comparison."""
    compared = compare_all(values, baselines, rule, intervals)
    for method in values:
        for pair in product([method], {best_baseline(values, baselines, method) or "", *named}):
            if pair in compared:
                yield *pair, compared[pair]


def decisions(places: Places, rule: SequentialRule, baseline: str | None = None) -> pl.DataFrame:
    """Decide on each method against the best baseline, and against a named one (key=value pairs).

    By the leading measure over the leading origin, which the seeds were given for. Columns are those of a
    `SequentialComparison`, and `low_both`, `high_both` and `p_both` for other seeds and queries, which are empty
    if values per query are not known.
    """
    against, rankers = "", set[str]()
    if baseline:
        with suppress(BadInput):  # the user may have left it out of the study
            against, rankers = places.named(baseline)
    rows: list[dict[str, Any]] = []
    for place in places.at():
        methods = place.methods
        named = {against} if place.key["ranker"] in rankers else set[str]()
        values = {method: dict[int, float]() for method in methods} | values_by_seed(place.results)
        for method, other, pair in _compare(values, place.able, named, rule, intervals=True):
            both = compare_both(methods[method], methods[other], place.by_query)
            over_both = {"low_both": both.low, "high_both": both.high, "p_both": both.p}
            rows.append({**place.key, "method": method, "against": other, **vars(pair), **over_both})
    found = pl.DataFrame(rows, schema=SCHEMA).with_columns(pl.col("low_both", "high_both", "p_both").fill_nan(None))
    return found.sort("collection", "ranker", "method", "against")


def _of_seeds(values: Values, a: str, b: str, seeds: Set[int]) -> Floats:
    return by_seed({seed: values[a][seed] for seed in values[a].keys() & seeds}, values[b])


def hopeless(seeds: int, more: float | None, rule: SequentialRule) -> bool:
    """Whether an open comparison, which is expected to take `more` seeds, gets none: those left would not decide it."""
    late = seeds >= max(rule.most / 2, 2 * rule.first)
    return late and more is not None and more > HOPELESS * (rule.most - seeds)


def _tested(difference: Floats, delta: float, bound: float) -> tuple[float, float]:
    """Return p of a difference, and of one of `delta` or more; 1 without evidence."""
    if not len(difference):
        return 1.0, 1.0
    above, below = p_values(difference, 0.0, -bound, bound)
    less, _ = p_values(difference, -delta, -bound, bound)
    _, more = p_values(difference, delta, -bound, bound)
    return min(1.0, 2 * float(min(above[-1], below[-1]))), float(max(less[-1], more[-1]))


def _steps(p: Floats) -> NDArray[np.int64]:
    """Holm's multipliers: the number of tests for the least p, one less for each next."""
    return len(p) - np.argsort(np.argsort(p, kind="stable"), kind="stable")


def _forecast(difference: Floats, delta: float, bound: float, count: int) -> float:
    """The seeds that a pair still takes if further ones differ as those so far, by whichever decision comes first."""
    x = np.clip(difference, -bound, bound)
    differ = min(_rest(x, 0.0, bound, side, math.log(2 * count / ALPHA)) for side in (1, -1))
    equal = max(_rest(x, side * delta, bound, -side, math.log(count / ALPHA)) for side in (1, -1))
    return min(differ, equal)


def _rest(x: Floats, mean: float, bound: float, side: int, limit: float) -> float:
    """The seeds until the best stake against one claim has won enough, at the rate of the seeds so far."""
    gain = side * (x - mean) / (bound + side * mean)
    won = np.log1p(FRACTIONS[:, None] * gain).sum(1)
    rest = limit + math.log(len(FRACTIONS)) - won
    rate = won / len(x)
    return float(np.min(np.where(rate > 0, np.ceil(np.maximum(rest, 1) / np.maximum(rate, 1e-12)), math.inf)))
