"""Decides, after each seed, which methods of a family are better, worse or equal, and which need another seed.

Methods are compared by the differences of their runs, paired by seed, each counted at `clip` at most: the mean of
unbounded differences could never be decided with tens of seeds, for one run in a hundred may lose everything. The
tighter the bound, the sooner a comparison is decided, and the less it says where runs spread further: unless it is
given, the first seeds tell how far runs spread, set it, and are no evidence themselves. What is decided holds however
often one has looked (`ranking.evaluation.anytime`), and whichever method turns out to be the best baseline: the family
is that of all pairs.

The chance that any pair is said to differ that does not is at most α, and so is that of any that is called equal and
differs by `equal_within` or more (Holm over the pairs, each).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ranking.evaluation.anytime import FRACTIONS, confidence_sequence, p_values
from ranking.evaluation.significance import holm

Verdict = Literal["better", "worse", "equal", "open"]
ALPHA = 0.05
SPREADS = 2.5
"""`clip`, in standard deviations of a pair's differences, where it is not given."""
CLIPS = (2.0, 5.0)
"""The least and the most that it then is, in multiples of `equal_within`."""
HOPELESS = 2.0
"""A comparison that will take so many times the seeds that are left, at a guess after half of them, gets no more."""
Values = Mapping[str, Mapping[int, float]]
"""What each method reached, by seed."""


@dataclass(frozen=True)
class Rule:
    """When a comparison is decided.

    Args:
        equal_within: a difference that makes none in practice.
        clip: a seed's difference counts as this much at most; None: as the first seeds say.
        most: seeds of a method, at most.
        first: seeds of every method before anything is decided; where `clip` is not given, they set it.
    """

    equal_within: float = 0.01
    clip: float | None = None
    most: int = 40
    first: int = 3

    def of_spread(self, spread: float) -> float:
        """The bound of a seed's difference where differences have this standard deviation."""
        if self.clip is not None:
            return self.clip
        least, most = (times * self.equal_within for times in CLIPS)
        return min(max(SPREADS * spread, least), most)


@dataclass(frozen=True)
class Comparison:
    """What is known of two methods.

    Args:
        verdict: of the first against the second.
        difference: mean over the common seeds, as it is.
        low, high: bounds of the mean difference, cut off at `bound`; of all pairs at once, whenever one stops.
        bound: what a seed's difference counts as, at most.
        seeds: that both have, with those that set the bound.
        p: that they do not differ, valid whenever one stops, adjusted by Holm's method.
        more: seeds that it will still take, at a guess; None where it is decided, infinity where it will not be.
    """

    verdict: Verdict
    difference: float
    low: float
    high: float
    bound: float
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
    pilot = pilot_seeds(values, rule)
    spreads = [own.std(ddof=1) for a, b in pairs if len(own := paired(values[a], values[b], pilot)) > 1]
    bound, count = rule.of_spread(float(np.median(spreads or [math.inf]))), max(len(pairs), 1)
    later = [paired(values[a], values[b], values[a].keys() - pilot) for a, b in pairs]
    found: dict[tuple[str, str], Comparison] = {}
    differ = holm(np.array([_differ(own, bound) for own in later]))
    equal = holm(np.array([_equal(own, rule.equal_within, bound) for own in later]))
    for (a, b), every, own, *p in zip(pairs, differences, later, differ, equal, strict=True):
        one = _decided(every, own, (float(p[0]), float(p[1])), rule, bound, count, intervals)
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
    leave as they are decided, and seeds go to those that may still be the best (successive elimination). One leaves as
    well, open, where after half of all seeds it will take far more than there are.
    """
    compared = compare_all(values, baselines, rule, intervals=False)
    wanted: set[str] = set()
    for method in values:
        against = {best_baseline(values, baselines, method), *named} - {None, method}
        for other in against:
            pair = compared.get((method, str(other)))
            if pair is not None and pair.verdict == "open" and not _hopeless(pair, rule):
                wanted |= {method, str(other)}
    return wanted


def pilot_seeds(values: Values, rule: Rule) -> Set[int]:
    """The seeds that set the bound; none where it is given."""
    every = sorted({seed for of in values.values() for seed in of})
    return set(every[: rule.first]) if rule.clip is None else set()


def paired(a: Mapping[int, float], b: Mapping[int, float], of: Set[int] | None = None) -> NDArray[np.float64]:
    """What `a` reaches more than `b`, by seed: all that both have, or those of them that are named."""
    seeds = a.keys() & b.keys() if of is None else a.keys() & b.keys() & of
    return np.array([a[seed] - b[seed] for seed in sorted(seeds)], np.float64)


def _hopeless(pair: Comparison, rule: Rule) -> bool:
    left = rule.most - pair.seeds
    late = pair.seeds >= max(rule.most / 2, 2 * rule.first)
    return late and pair.more is not None and pair.more > HOPELESS * left


def _differ(difference: NDArray[np.float64], bound: float) -> float:
    if not len(difference):
        return 1.0
    above, below = p_values(difference, 0.0, -bound, bound)
    return float(min(1.0, 2 * min(above[-1], below[-1])))


def _equal(difference: NDArray[np.float64], delta: float, bound: float) -> float:
    if not len(difference):
        return 1.0
    less, more = (p_values(difference, side * delta, -bound, bound)[side > 0][-1] for side in (1, -1))
    return float(max(less, more))


def _decided(
    every: NDArray[np.float64],
    later: NDArray[np.float64],
    p: tuple[float, float],
    rule: Rule,
    bound: float,
    count: int,
    interval: bool,
) -> Comparison:
    """What a pair has come to, by all of its differences, those behind the pilot, and p of no difference and of one."""
    low, high = -bound, bound
    if not len(later):
        mean = float(every.mean()) if len(every) else math.nan
        more = _forecast(every, rule.equal_within, bound, count) + len(every) if len(every) else math.inf
        return Comparison("open", mean, low, high, bound, len(every), 1.0, more)
    if interval:
        sequence = confidence_sequence(later, 1 - ALPHA / count, -bound, bound)
        low, high = (float(each[-1]) for each in sequence)
    differ, equal = p
    verdict: Verdict = "open"
    if len(every) >= rule.first:
        if differ <= ALPHA:
            verdict = "better" if np.clip(later, -bound, bound).mean() > 0 else "worse"
        elif equal <= ALPHA:
            verdict = "equal"
    left = None if verdict != "open" else _forecast(later, rule.equal_within, bound, count)
    return Comparison(verdict, float(every.mean()), low, high, bound, len(every), differ, left)


def _turned(one: Comparison) -> Comparison:
    other: dict[Verdict, Verdict] = {"better": "worse", "worse": "better"}
    verdict = other.get(one.verdict, one.verdict)
    return replace(one, verdict=verdict, difference=-one.difference, low=-one.high, high=-one.low)


def _forecast(difference: NDArray[np.float64], delta: float, bound: float, count: int) -> float:
    """Seeds that a pair will still take if further ones differ as those so far: the least over what may be decided."""
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
