"""Decides, after each seed, which methods of a family are better, worse or equal, and which need another seed.

Methods are compared by the differences of their runs, paired by seed, each cut off at `clip`: the mean of unbounded
differences could never be decided with tens of seeds, for one run in a hundred may lose everything. Unless the bound is
given, the spread of the first seeds sets it, and those seeds are no evidence themselves. A decision holds however often
one has looked (`ranking.evaluation.anytime`), and whichever method turns out to be the best baseline.

The chance that any pair without a difference is declared different is at most α, and so is the chance that any pair
declared equal differs by `equal_within` or more (Holm over the pairs, each).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cluster.output.methods import evaluations, is_learned, method_columns, with_methods
from cluster.plan.study import FIRST_SEEDS
from cluster.plan.sweep import Planned
from cluster.statistics.by_query import Queries, values_by_run
from cluster.statistics.comparison import compare_both, families, methods_of, named_baseline
from cluster.statistics.paired import Floats, by_seed, values_by_seed
from ranking.errors import BadInput
from ranking.evaluation.anytime import FRACTIONS, confidence_sequence, p_values
from ranking.evaluation.significance import holm

Decision = Literal["better", "worse", "equal", "open"]
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
class StoppingRule:
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
    def of_options(cls, options: Mapping[str, Any]) -> StoppingRule:
        """The rule in a study's options."""
        return cls(options["equal_within"], options["clip"], options["max_seeds"])

    def of_spread(self, spread: float) -> float:
        """The bound of a seed's difference if differences have this standard deviation."""
        if self.clip is not None:
            return self.clip
        least, most = (times * self.equal_within for times in CLIPS)
        return min(max(SPREADS * spread, least), most)


@dataclass(frozen=True)
class Comparison:
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


def compare_all(
    values: Values, baselines: Collection[str], rule: StoppingRule, intervals: bool = True
) -> dict[tuple[str, str], Comparison]:
    """Compare every method with every baseline.

    Args:
        intervals: whether to compute intervals, which take most of the time.

    Returns:
        For each pair (method, baseline), of two baselines in both orders; the verdict is the method's.
    """
    names = sorted(values)
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :] if a in baselines or b in baselines]
    pilot = pilot_seeds(values, rule)
    spreads = [part.std(ddof=1) for a, b in pairs if len(part := _of_seeds(values, a, b, pilot)) > 1]
    bound, count = rule.of_spread(float(np.median(spreads or [math.inf]))), max(len(pairs), 1)
    later = [_of_seeds(values, a, b, values[a].keys() - pilot) for a, b in pairs]
    differ = np.array([_differ(part, bound) for part in later])
    equal = np.array([_equal(part, rule.equal_within, bound) for part in later])
    tests = zip(holm(differ), holm(equal), _steps(differ), _steps(equal), strict=True)
    compared: dict[tuple[str, str], Comparison] = {}
    for (a, b), part, test in zip(pairs, later, tests, strict=True):
        every = by_seed(values[a], values[b])
        one = _decided(every, part, _PairTest(*map(float, test)), rule, bound, count, intervals)
        if b in baselines:
            compared[a, b] = one
        if a in baselines:
            compared[b, a] = _turned(one)
    return compared


def best_baseline(values: Values, baselines: Collection[str], other_than: str = "") -> str | None:
    """The baseline with the highest mean over the seeds that all baselines share; over its own seeds if none."""
    able = {name: values[name] for name in baselines if name in values and values[name] and name != other_than}
    if not able:
        return None
    common = set.intersection(*(set(of) for of in able.values()))
    means = {name: float(np.mean([of[seed] for seed in sorted(common or of)])) for name, of in able.items()}
    return min(able, key=lambda name: (-means[name], name))


def contenders(values: Values, baselines: Collection[str], named: Collection[str], rule: StoppingRule) -> set[str]:
    """The methods that need another seed: those in an open comparison, and their opponents.

    Each method is compared with the best baseline (that one with the runner-up), and with the named ones. So methods
    leave as they are decided, and seeds go to those that may still be the best (successive elimination). An open one
    leaves too, after half of all seeds, if it is expected to take far more than there are.
    """
    wanted: set[str] = set()
    for method, other, pair in _compare(values, baselines, named, rule, intervals=False):
        if pair.verdict == "open" and not hopeless(pair.seeds, pair.more, rule):
            wanted |= {method, other}
    return wanted


def _compare(
    values: Values, baselines: Collection[str], named: Collection[str], rule: StoppingRule, intervals: bool
) -> Iterator[tuple[str, str, Comparison]]:
    """Yield each method, an opponent (the best other baseline, and the named ones), and the method's comparison."""
    compared = compare_all(values, baselines, rule, intervals)
    for method in values:
        for other in {best_baseline(values, baselines, method), *named} - {method}:
            if other is not None and (method, other) in compared:
                yield method, other, compared[method, other]


def pilot_seeds(values: Values, rule: StoppingRule) -> Set[int]:
    """The seeds that set the bound; none if it is given."""
    every = sorted({seed for of in values.values() for seed in of})
    return set(every[: rule.first]) if rule.clip is None else set()


def is_baseline(named: str | None, planned: Planned) -> bool:
    """Whether a run is of the method that a user names as the baseline."""
    pairs = [part.partition("=") for part in (named or "").split()]
    return bool(pairs) and all(planned.parameters.get(key) == value for key, _, value in pairs)


def decisions(
    trials: pl.DataFrame, rule: StoppingRule, baseline: str | None = None, queries: Queries | None = None
) -> pl.DataFrame:
    """Decide on each method against the best baseline, and against a named one.

    By the leading measure over the leading origin, which the seeds were given for.

    Args:
        baseline: key=value pairs of a further method to compare with.
        queries: the frame of `queries.parquet`, for `low_both`, `high_both` and `p_both`, which are for other seeds and
            queries; None leaves them empty.

    Returns:
        The columns of SCHEMA: those of a `Comparison`, of which verdict is the method's.
    """
    candidates, measure = evaluations(trials)[0]
    columns = method_columns(trials)
    named = set[str]()
    with suppress(BadInput):  # the user may have left it out of the study
        named |= {named_baseline(with_methods(trials).select(columns).unique(), baseline)[0]} if baseline else set()
    done = trials.filter(status="done")["run"].to_list()
    by_query = values_by_run(queries, done, measure).get(candidates, {})
    rows: list[dict[str, Any]] = []
    for place, family in families(trials):
        methods = methods_of(family, columns)
        values = {method: dict[int, float]() for method in methods} | values_by_seed(family)
        able = {method for method, runs in methods.items() if not is_learned(runs.identity)}
        for method, other, pair in _compare(values, able, named, rule, intervals=True):
            both = compare_both(methods[method], methods[other], by_query)
            found = {} if both is None else {"low_both": both.low, "high_both": both.high, "p_both": both.p}
            rows.append(place | {"method": method, "against": other, **vars(pair), **found})
    return pl.DataFrame(rows, schema=SCHEMA).sort("collection", "ranker", "method", "against")


def _of_seeds(values: Values, a: str, b: str, seeds: Set[int]) -> Floats:
    return by_seed({seed: values[a][seed] for seed in values[a].keys() & seeds}, values[b])


def hopeless(seeds: int, more: float | None, rule: StoppingRule) -> bool:
    """Whether an open comparison gets no more seeds, because those that are left would not decide it.

    Args:
        more: the seeds that it is expected to take yet; None if it is decided.
    """
    late = seeds >= max(rule.most / 2, 2 * rule.first)
    return late and more is not None and more > HOPELESS * (rule.most - seeds)


def _differ(difference: Floats, bound: float) -> float:
    if not len(difference):
        return 1.0
    above, below = p_values(difference, 0.0, -bound, bound)
    return float(min(1.0, 2 * min(above[-1], below[-1])))


def _equal(difference: Floats, delta: float, bound: float) -> float:
    if not len(difference):
        return 1.0
    less, more = (p_values(difference, side * delta, -bound, bound)[side > 0][-1] for side in (1, -1))
    return float(max(less, more))


class _PairTest(NamedTuple):
    """The tests of a pair: p by Holm's method that it does not differ, and that it is not equal, and by how much Holm's
    step multiplied each."""

    differ: float
    equal: float
    differ_step: float
    equal_step: float


def _steps(p: Floats) -> NDArray[np.int64]:
    """Holm's multipliers: the number of tests for the least p, one less for each next."""
    return len(p) - np.argsort(np.argsort(p, kind="stable"), kind="stable")


def _decided(
    every: Floats,
    later: Floats,
    test: _PairTest,
    rule: StoppingRule,
    bound: float,
    count: int,
    interval: bool,
) -> Comparison:
    """Decide a pair from all of its differences, those after the pilot, and its tests."""
    low, high = -bound, bound
    if not len(later):
        mean = float(every.mean()) if len(every) else math.nan
        more = _forecast(every, rule.equal_within, bound, count) + len(every) if len(every) else math.inf
        return Comparison("open", mean, low, high, bound, len(every), 1.0, more)
    verdict: Decision = "open"
    if len(every) >= rule.first:
        if test.differ <= ALPHA:
            verdict = "better" if np.clip(later, -bound, bound).mean() > 0 else "worse"
        elif test.equal <= ALPHA:
            verdict = "equal"
    if interval:
        # Two one-sided tests at α have the interval of 1 - 2α, and Holm's step divides α.
        level = 2 * ALPHA / test.equal_step if verdict == "equal" else ALPHA / test.differ_step
        low, high = (float(side[-1]) for side in confidence_sequence(later, 1 - level, -bound, bound))
        if verdict == "equal":  # by a step of the grid of means that the bounds are on
            low, high = max(low, -rule.equal_within), min(high, rule.equal_within)
    left = None if verdict != "open" else _forecast(later, rule.equal_within, bound, count)
    return Comparison(verdict, float(every.mean()), low, high, bound, len(every), test.differ, left)


def _turned(one: Comparison) -> Comparison:
    other: dict[Decision, Decision] = {"better": "worse", "worse": "better"}
    verdict = other.get(one.verdict, one.verdict)
    return replace(one, verdict=verdict, difference=-one.difference, low=-one.high, high=-one.low)


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
