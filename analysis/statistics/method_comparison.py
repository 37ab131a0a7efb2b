"""Compares the methods of one place: every pair once, each with one reference, and all for which may be the best."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import combinations

import numpy as np

from pyrite.analysis.statistics.comparison import LEVEL, MethodRuns, compare_both
from pyrite.analysis.statistics.crossed import CrossedDifference, Floats, beyond, deviation, p_equal
from pyrite.analysis.statistics.paired import UNKNOWN, differences, mean_difference
from pyrite.ranking.evaluation.significance import holm, paired_t_test, shaffer


@dataclass(frozen=True)
class PairDifference:
    """The difference of two methods: the first one's mean less the second one's, over the runs that are paired.

    Args:
        error, freedom: its standard error and the degrees of freedom; over seeds and queries (and agents) if values per
            query are known.
        p: the probability if there is none; nan if it can't be tested.
        pairs: the number of seeds that both have, or of agents if one has several.
        spread: the standard deviation of the pairs' differences.
        both: the comparison over seeds and queries; UNTESTED if values per query are not known.
    """

    mean: float
    error: float
    freedom: float
    p: float
    pairs: int
    spread: float
    both: CrossedDifference

    def reach(self, level: float) -> float:
        """Return the distance of a one-sided bound from the mean; inf if the difference can't be tested."""
        if math.isnan(self.p):
            return math.inf
        return beyond(level, self.freedom) * self.error if self.error else 0.0

    def interval(self, level: float) -> tuple[float, float]:
        """Return the two-sided interval that misses with this probability; nan if the difference can't be tested."""
        reach = self.reach(level / 2)
        if math.isinf(reach):
            return math.nan, math.nan
        return self.mean - reach, self.mean + reach

    def p_equal(self, within: float) -> float:
        """Return the probability of so small a mean if the true one is `within` or more (TOST)."""
        return 1.0 if math.isnan(self.error) else p_equal(self.mean, self.error, self.freedom, within)

    def turned(self) -> PairDifference:
        """Return the difference of the second method from the first."""
        return replace(self, mean=-self.mean)


@dataclass(frozen=True)
class MethodTest:
    """A method against another one, in a family of comparisons.

    Args:
        pair: their difference.
        low, high: its interval; the intervals of the family hold together in 95% of studies.
        p, equal: p of the difference and of the test of equivalence, by Holm's method over the family, that of a
            difference in the family of all pairs by Shaffer's; nan if a test can't be made.
    """

    pair: PairDifference
    low: float
    high: float
    p: float
    equal: float

    def turned(self) -> MethodTest:
        """Return the test of the second method against the first."""
        return replace(self, pair=self.pair.turned(), low=-self.high, high=-self.low)

    @property
    def difference(self) -> float:
        return self.pair.mean

    @property
    def differs(self) -> bool:
        return self.p < LEVEL

    @property
    def with_zero(self) -> bool:
        """Whether the interval contains 0. It may if `differs`: step-down tests find more than intervals do."""
        return self.low <= 0 <= self.high

    @property
    def direction(self) -> int:
        """1 if the first method is better, -1 if it is worse, 0 if neither is shown."""
        if not self.differs:
            return 0
        return 1 if self.difference > 0 else -1


@dataclass(frozen=True)
class BestMethods:
    """Multiple comparisons with the best (Hsu 1984): each method less the best of the others, at 95% for all at once.

    Args:
        possible: the methods that may be the best, the highest mean first.
        ahead: how far the best of the other methods may be ahead of each; 0 if none can be, inf if nothing bounds it.
    """

    possible: Sequence[str]
    ahead: Mapping[str, float]


class MethodComparison:
    """The methods of one ranker on one collection, origin and measure. Each pair of them is compared once.

    Args:
        methods: the runs of each method, the highest mean first.
        by_query: the values of each run by query, by its name; empty if they are not known.
    """

    def __init__(self, methods: Mapping[str, MethodRuns], by_query: Mapping[str, Floats] = UNKNOWN) -> None:
        self.methods = methods
        self.by_query = by_query
        self._pairs: dict[tuple[str, str], PairDifference] = {}

    def pair(self, first: str, second: str) -> PairDifference:
        """Return the difference of two methods."""
        if (first, second) not in self._pairs:
            self._pairs[first, second] = pair = self._paired(first, second)
            self._pairs[second, first] = pair.turned()
        return self._pairs[first, second]

    def _paired(self, first: str, second: str) -> PairDifference:
        a, b = self.methods[first], self.methods[second]
        both, pairs = compare_both(a, b, self.by_query), differences(a.runs, b.runs)
        count = len(pairs)
        spread = deviation(pairs)
        if both.is_known:
            return PairDifference(both.mean, both.error, both.freedom, both.p, count, spread, both)
        error = spread / math.sqrt(max(count, 1))
        p = paired_t_test(pairs, np.zeros(count))
        return PairDifference(mean_difference(pairs).mean, error, max(count - 1, 1), p, count, spread, both)

    def others(self, method: str) -> list[str]:
        """Return the methods but one."""
        return [other for other in self.methods if other != method]

    def against(self, reference: str, within: float) -> dict[str, MethodTest]:
        """Test all other methods against one that was not chosen by these results."""
        others = self.others(reference)
        return dict(zip(others, tested([self.pair(method, reference) for method in others], within, holm), strict=True))

    def all_pairs(self, within: float) -> dict[tuple[str, str], MethodTest]:
        """Test every pair of methods, the one with the higher mean first: one family."""
        pairs = list(combinations(self.methods, 2))
        adjust = partial(shaffer, means=len(self.methods))
        return dict(zip(pairs, tested([self.pair(*pair) for pair in pairs], within, adjust), strict=True))

    def against_chosen(self, reference: str, within: float) -> dict[str, MethodTest]:
        """Test all other methods against one that these results have chosen: in the family of all pairs."""
        pairs = self.all_pairs(within)
        both = pairs | {(b, a): test.turned() for (a, b), test in pairs.items()}
        return {method: both[method, reference] for method in self.others(reference)}

    def of(self, methods: Sequence[str]) -> MethodComparison:
        """Return the comparison of some of the methods, with the pairs that are compared already."""
        some = MethodComparison({name: self.methods[name] for name in methods}, self.by_query)
        some._pairs = self._pairs
        return some

    @cached_property
    def best(self) -> BestMethods:
        """Return the methods that may be the best, and how far behind each may be.

        The one-sided bounds of a method against all others hold together by Bonferroni's inequality, which needs no
        assumption on how their errors depend on each other. To name one method as the best takes two-sided bounds, as
        for every other difference: with those, others may be on the list again.
        """
        share = LEVEL / max(len(self.methods) - 1, 1)
        one_sided = self._may_be_best(share)
        return one_sided if len(one_sided.possible) > 1 else self._may_be_best(share / 2)

    def _may_be_best(self, share: float) -> BestMethods:
        """Return the methods that no other one is ahead of, by one-sided bounds at a level."""

        def upper(method: str, other: str) -> float:
            pair = self.pair(method, other)
            return pair.mean + pair.reach(share)

        def ahead(method: str) -> float:
            return max((upper(other, method) for other in possible if other != method), default=0.0)

        possible = [one for one in self.methods if all(upper(one, other) >= 0 for other in self.others(one))]
        return BestMethods(possible, {method: max(ahead(method), 0.0) for method in self.methods})

    def lead(self, method: str) -> tuple[str, float, float, float]:
        """Return the method next to the best one, and the lead over it with its simultaneous 95% interval."""
        level = LEVEL / max(len(self.methods) - 1, 1)
        pairs = {other: self.pair(method, other) for other in self.others(method)}
        after = min(pairs, key=lambda other: pairs[other].mean)
        low, high = (min(pair.interval(level)[side] for pair in pairs.values()) for side in (0, 1))
        return after, pairs[after].mean, low, high


def tested(pairs: Sequence[PairDifference], within: float, adjust: Callable[[list[float]], Floats]) -> list[MethodTest]:
    """Adjust p of one family by a method, equivalence by Holm's, and the intervals by Bonferroni's."""
    p = adjust([pair.p for pair in pairs])
    equal = holm([pair.p_equal(within) for pair in pairs])
    level = LEVEL / max(len(pairs), 1)
    return [
        MethodTest(pair, *pair.interval(level), float(of_pair), float(of_equal))
        for pair, of_pair, of_equal in zip(pairs, p, equal, strict=True)
    ]
