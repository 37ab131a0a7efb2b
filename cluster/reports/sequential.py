"""Decides, after each seed, which methods of a family are better, worse or equal, and which need another seed.

Methods are compared by the differences of their runs, paired by seed, each counted at `clip` at most: the mean of
unbounded differences could never be decided with tens of seeds, for one run in a hundred may lose everything. What is
decided holds however often one has looked (`ranking.evaluation.anytime`), and whichever method turns out to be the best
baseline: the family is that of all pairs.

The chance that any pair is said to differ that does not is at most α (Holm over the pairs); that any is called equal
that differs by `equal_within` or more is at most α as well (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ranking.evaluation.anytime import FRACTIONS, confidence_sequence, p_values
from ranking.evaluation.significance import holm

Verdict = Literal["better", "worse", "equal", "open"]
ALPHA = 0.05
CLIP = 5.0
"""`clip`, in multiples of `equal_within`, where it is not given."""
Values = Mapping[str, Mapping[int, float]]
"""What each method reached, by seed."""


@dataclass(frozen=True)
class Rule:
    """When a comparison is decided.

    Args:
        equal_within: a difference that makes none in practice.
        clip: a seed's difference counts as this much at most; None: five times `equal_within`.
        most: seeds of a method, at most.
        first: seeds of every method before anything is decided.
    """

    equal_within: float = 0.01
    clip: float | None = None
    most: int = 40
    first: int = 3

    @property
    def bound(self) -> float:
        return CLIP * self.equal_within if self.clip is None else self.clip


@dataclass(frozen=True)
class Comparison:
    """What is known of two methods.

    Args:
        verdict: of the first against the second.
        difference: mean over the common seeds, as it is.
        low, high: bounds of the mean difference, cut off at `clip`; of all pairs at once, whenever one stops.
        seeds: that both have.
        p: that they do not differ, valid whenever one stops, adjusted by Holm's method.
        more: seeds that it will still take, at a guess; None where it is decided, infinity where it will not be.
    """

    verdict: Verdict
    difference: float
    low: float
    high: float
    seeds: int
    p: float
    more: float | None


def compare_all(
    values: Values, baselines: Collection[str], rule: Rule, intervals: bool = True
) -> dict[tuple[str, str], Comparison]:
    """Compare every method with every baseline.

    Args:
        values: of each method, by seed.
        baselines: the methods that others are compared with.
        rule: when a pair is decided.
        intervals: whether they are wanted; they take most of the time.

    Returns:
        For each pair (method, baseline), of two baselines in both orders; the verdict is the method's.
    """
    names = sorted(values)
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :] if a in baselines or b in baselines]
    differences = [paired(values[a], values[b]) for a, b in pairs]
    bound, count = rule.bound, max(len(pairs), 1)
    found: dict[tuple[str, str], Comparison] = {}
    p = holm(np.array([_differ(difference, bound) for difference in differences]))
    for (a, b), difference, adjusted in zip(pairs, differences, p, strict=True):
        one = _decided(difference, float(adjusted), rule, count, intervals)
        if b in baselines:
            found[a, b] = one
        if a in baselines:
            found[b, a] = _turned(one)
    return found


def best_baseline(values: Values, baselines: Collection[str], other_than: str = "") -> str | None:
    """The baseline with the highest mean over the seeds that all baselines have, or its own where they share none."""
    able = {name: values[name] for name in baselines if name in values and values[name] and name != other_than}
    if not able:
        return None
    common = set.intersection(*(set(of) for of in able.values()))
    means = {name: float(np.mean([of[seed] for seed in sorted(common or of)])) for name, of in able.items()}
    return min(able, key=lambda name: (-means[name], name))


def contenders(values: Values, baselines: Collection[str], named: Collection[str], rule: Rule) -> set[str]:
    """The methods that need another seed: those in a comparison that is open, and whom they are compared with.

    Each method is compared with the best baseline (that one with the runner-up), and with the named ones. So methods
    leave as they are decided, and seeds go to those that may still be the best (successive elimination).
    """
    compared = compare_all(values, baselines, rule, intervals=False)
    wanted: set[str] = set()
    for method in values:
        against = {best_baseline(values, baselines, method), *named} - {None, method}
        for other in against:
            pair = compared.get((method, str(other)))
            if pair is not None and pair.verdict == "open":
                wanted |= {method, str(other)}
    return wanted


def paired(a: Mapping[int, float], b: Mapping[int, float]) -> NDArray[np.float64]:
    """What `a` reaches more than `b`, by seed."""
    return np.array([a[seed] - b[seed] for seed in sorted(a.keys() & b.keys())], np.float64)


def _differ(difference: NDArray[np.float64], bound: float) -> float:
    if not len(difference):
        return 1.0
    above, below = p_values(difference, 0.0, -bound, bound)
    return float(min(1.0, 2 * min(above[-1], below[-1])))


def _decided(difference: NDArray[np.float64], p: float, rule: Rule, count: int, interval: bool) -> Comparison:
    seeds, bound, delta = len(difference), rule.bound, rule.equal_within
    if not seeds:
        return Comparison("open", math.nan, -bound, bound, 0, 1.0, math.inf)
    mean = float(difference.mean())
    low, high = -bound, bound
    if interval:
        sequence = confidence_sequence(difference, 1 - ALPHA / count, -bound, bound)
        low, high = (float(each[-1]) for each in sequence)
    less = p_values(difference, delta, -bound, bound)[1][-1]
    more = p_values(difference, -delta, -bound, bound)[0][-1]
    verdict: Verdict = "open"
    if seeds >= rule.first:
        if p <= ALPHA:
            verdict = "better" if np.clip(difference, -bound, bound).mean() > 0 else "worse"
        elif max(less, more) <= ALPHA / count:
            verdict = "equal"
    left = None if verdict != "open" else _forecast(difference, rule, count)
    return Comparison(verdict, mean, low, high, seeds, p, left)


def _turned(one: Comparison) -> Comparison:
    other: dict[Verdict, Verdict] = {"better": "worse", "worse": "better"}
    verdict = other.get(one.verdict, one.verdict)
    return Comparison(verdict, -one.difference, -one.high, -one.low, one.seeds, one.p, one.more)


def _forecast(difference: NDArray[np.float64], rule: Rule, count: int) -> float:
    """Seeds that a pair will still take if further ones differ as those so far: the least over what may be decided."""
    bound, delta = rule.bound, rule.equal_within
    x = np.clip(difference, -bound, bound)
    differ = min(_rest(x, 0.0, bound, side, math.log(2 * count / ALPHA)) for side in (1, -1))
    equal = max(_rest(x, side * delta, bound, -side, math.log(count / ALPHA)) for side in (1, -1))
    return min(differ, equal)


def _rest(x: NDArray[np.float64], mean: float, bound: float, side: int, limit: float) -> float:
    """Seeds until the best stake against one claim has won enough; its rate is that of the seeds so far."""
    gain = side * (x - mean) / (bound + side * mean)
    won = np.log1p(FRACTIONS[:, None] * gain).sum(1)
    rest = limit + math.log(len(FRACTIONS)) - won
    rate = won / len(x)
    return float(np.min(np.where(rate > 0, np.ceil(np.maximum(rest, 1) / np.maximum(rate, 1e-12)), math.inf)))
