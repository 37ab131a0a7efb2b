"""Bounds and tests a mean difference by a model of random effects: seeds and queries, and agents, are all a sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import scipy  # its `stats` is imported when it is first used
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Group = tuple[int, ...]
"""The factors of an effect, of agents (0), seeds (1) and queries (2)."""
CONFIDENCE = 0.95
NAN = float("nan")
EQUAL = 1e-12
"""The difference up to which values of a measure are equal: it is of rounding."""
NOTHING = EQUAL**2
"""The mean square up to which no value differs from another."""


class CrossedDifference(NamedTuple):
    """A mean difference over runs and queries, which are both a sample of all that could have been drawn.

    Args:
        low, high: its 95% interval for other seeds and other queries.
        p: the two-sided probability of such a mean if the true one is 0; 1 if nothing differs.
        error, freedom: the standard error of the mean and its degrees of freedom.
        of_seed, of_query, of_cell: standard deviations of the effect of a seed, of a query, and of a single value.
    """

    mean: float
    low: float
    high: float
    p: float
    error: float
    freedom: float
    of_seed: float
    of_query: float
    of_cell: float

    @property
    def is_known(self) -> bool:
        """Whether there is a test."""
        return self.p == self.p

    def p_equal(self, within: float) -> float:
        return p_equal(self.mean, self.error, self.freedom, within)


UNTESTED = CrossedDifference(*[NAN] * len(CrossedDifference._fields))
"""The difference if it can't be tested."""


def mean(sample: Floats) -> float:
    """Return the mean; nan without values."""
    return float(sample.mean()) if len(sample) else NAN


def deviation(sample: Floats) -> float:
    """Return the sample standard deviation; nan with fewer than two values."""
    return float(sample.std(ddof=1)) if len(sample) > 1 else NAN


def student(mean: float, error: float, freedom: float) -> tuple[float, float, float]:
    """Return the interval of a mean and its two-sided p by Student's t."""
    reach = beyond((1 - CONFIDENCE) / 2, freedom) * error
    return mean - reach, mean + reach, 2 * tail(abs(mean) / error, freedom)


def beyond(probability: float, freedom: float) -> float:
    """Return the value that Student's t exceeds with a probability (`scipy.stats.t.isf`, without what it checks)."""
    return -float(scipy.special.stdtrit(freedom, probability))


def tail(t: float, freedom: float) -> float:
    """Return the probability that Student's t exceeds a value (`scipy.stats.t.sf`, without what it checks)."""
    return float(scipy.special.stdtr(freedom, -t))


def p_equal(mean: float, error: float, freedom: float, within: float) -> float:
    """Return the probability of so small a mean if the true one is `within` or more, in either direction (TOST)."""
    if error == 0:
        return float(abs(mean) >= within)
    return tail((within - abs(mean)) / error, freedom)


def crossed_difference(differences: Floats) -> CrossedDifference:
    """Bound and test a mean by a model of random effects of seeds and queries.

    A difference is the sum of the mean, an effect of its seed, one of its query, and a rest. Their variances follow
    from the mean squares (the analysis of variance of a two-way layout without replication), negative ones being 0, and
    the degrees of freedom from Satterthwaite's (1946) formula. The mean square of the seeds always counts in it: with
    few seeds, that their effect seems to be 0 is no evidence that it is. UNTESTED with fewer than two runs or queries,
    or if all differ by the same amount.

    Args:
        differences: float64 [runs, queries], paired; or [agents, seeds] or [agents, seeds, queries]
            (`pyrite.analysis.statistics.paired.agent_cells`).
    """
    if differences.ndim < 2 or min(differences.shape) < 2:
        return UNTESTED
    return (_of_three_factors if differences.ndim == 3 else _of_two_factors)(differences)


def _without_spread(differences: Floats, freedom: float) -> CrossedDifference:
    """Return the test of values that are all equal: none differs, or there is nothing to measure the mean by."""
    nothing = np.abs(differences).max() <= EQUAL
    return CrossedDifference(0.0, 0.0, 0.0, 1.0, 0.0, freedom, 0.0, 0.0, 0.0) if nothing else UNTESTED


def _of_two_factors(differences: Floats) -> CrossedDifference:
    seeds, queries = differences.shape
    mean, by_run, by_query = float(differences.mean()), differences.mean(1), differences.mean(0)
    rest = differences - by_run[:, None] - by_query + mean
    freedom = np.array([seeds - 1, queries - 1, (seeds - 1) * (queries - 1)], np.float64)
    squares = np.array([queries * by_run.var(ddof=1), seeds * by_query.var(ddof=1), (rest**2).sum() / freedom[2]])
    if squares.max() <= NOTHING:
        return _without_spread(differences, float(freedom[0]))
    of_seed, of_query = np.maximum(squares[:2] - squares[2], 0.0).tolist()
    total = of_seed + of_query + squares[2]
    weights = np.array([1.0, float(of_query > 0), 1.0 - (of_seed > 0) - (of_query > 0)])
    degrees = float(total**2 / ((weights * squares) ** 2 / freedom).sum())
    error = float(np.sqrt(total / (seeds * queries)))
    parts = np.sqrt([of_seed / queries, of_query / seeds, squares[2]]).tolist()
    return CrossedDifference(mean, *student(mean, error, degrees), error, degrees, *parts)


WHOLE = (0, 1, 2)
BELOW: Mapping[Group, tuple[Group, ...]] = {
    (0,): ((),),
    (1,): ((),),
    (2,): ((),),
    (0, 1): ((), (0,), (1,)),
    (0, 2): ((), (0,), (2,)),
    (1, 2): ((), (1,), (2,)),
    WHOLE: ((), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2)),
}
"""The effects that are within the means of each group of factors."""
COMPONENTS: Mapping[Group, Mapping[Group, float]] = {
    (0, 1): {(0, 1): 1, WHOLE: -1},
    (0, 2): {(0, 2): 1, WHOLE: -1},
    (1, 2): {(1, 2): 1, WHOLE: -1},
    (0,): {(0, 1): -1, (0, 2): -1, (0,): 1, WHOLE: 1},
    (1,): {(0, 1): -1, (1, 2): -1, (1,): 1, WHOLE: 1},
    (2,): {(0, 2): -1, (1, 2): -1, (2,): 1, WHOLE: 1},
}
"""The mean squares whose signed sum estimates the variance of each effect, times the values that it is shared by."""


def _of_three_factors(cells: Floats) -> CrossedDifference:
    """Bound and test a mean over [agents, seeds, queries], each of which is a sample, by a model of random effects.

    The mean squares of agents and of seeds always count in the degrees of freedom.
    """
    squares, freedom = _mean_squares(cells)
    if max(squares.values()) <= NOTHING:
        return _without_spread(cells, float(freedom[0,]))
    sums = {effect: sum(sign * squares[group] for group, sign in of.items()) for effect, of in COMPONENTS.items()}
    effects = [effect for effect in COMPONENTS if sums[effect] > 0]  # a component that seems negative is 0
    weights = {group: sum(COMPONENTS[effect].get(group, 0.0) for effect in effects) for group in squares}
    weights[WHOLE] += 1.0
    total = sum(weights[group] * squares[group] for group in squares)
    counted = weights | {(0,): 1.0, (1,): 1.0}
    degrees = total**2 / sum((counted[group] * squares[group]) ** 2 / freedom[group] for group in squares)
    mean, error = float(cells.mean()), float(np.sqrt(total / cells.size))
    of_agent, of_query = (max(sums[axis,], 0.0) * cells.shape[axis] / cells.size for axis in (0, 2))
    spreads = np.sqrt([of_agent, of_query, squares[WHOLE]]).tolist()
    return CrossedDifference(mean, *student(mean, error, float(degrees)), error, float(degrees), *spreads)


def _mean_squares(cells: Floats) -> tuple[dict[Group, float], dict[Group, int]]:
    """Return the mean square of each group of factors, and its degrees of freedom."""
    effects: dict[Group, Floats] = {(): np.full(cells.shape, cells.mean())}
    squares, freedom = dict[Group, float](), dict[Group, int]()
    for group, below in BELOW.items():
        rest = tuple(sorted({*WHOLE} - {*group}))
        means = np.broadcast_to(cells.mean(rest, keepdims=True), cells.shape)
        effects[group] = means - sum(effects[part] for part in below)
        freedom[group] = int(np.prod(np.take(cells.shape, group) - 1))
        squares[group] = float((effects[group] ** 2).sum() / freedom[group])
    return squares, freedom
