"""Pairs the runs of two methods by seed, and bounds and tests the mean of their differences.

A seed sets the first weights and the order of the examples of all methods alike: what its runs share cancels out in
their difference. All runs with one agent share its luck, and all agents that were tried with a seed share the luck of
the other method's run: agents and seeds are then both a sample (`agent_cells`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import scipy  # its `stats` is imported when it is first used
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Unit = tuple[tuple[str, str], ...]
"""A seed and the settings that runs of both methods have."""
CONFIDENCE = 0.95


@dataclass(frozen=True)
class MeasuredRun:
    """A finished run.

    Args:
        value: the mean over the queries.
        seed: the seed of its weights and of the order of its examples.
        agent: the seed of the agent that chose its negatives; "-" for none.
        settings: swept keys that do not distinguish methods, with their values.
        name: the run's name, by which its values per query are looked up.
    """

    value: float
    seed: int = 0
    agent: str = "-"
    settings: Mapping[str, str] = field(default_factory=dict)
    name: str = ""


class Difference(NamedTuple):
    """A mean difference, its 95% interval and two-sided p of 0; nan if there is none."""

    mean: float
    low: float
    high: float
    p: float
    pairs: int


def values_by_seed(results: pl.DataFrame, column: str = "method") -> dict[str, dict[int, float]]:
    """Collect results by seed for each value of a column, the mean of a seed's runs; failed runs have none."""
    values: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name, seed, value in results.drop_nulls("value").select(column, "seed", "value").iter_rows():
        values[str(name)][seed].append(value)
    return {name: {seed: _mean(same) for seed, same in seeds.items()} for name, seeds in values.items()}


def mean_difference(differences: Sequence[float] | Floats) -> Difference:
    """Bound and test the mean of paired differences by Student's t.

    There is no interval with fewer than two pairs. Equal differences have an interval of no width, and p is 1 if they
    are 0 and 0 otherwise; callers that compare runs leave those out.

    >>> mean_difference([1.0, 2.0, 3.0]).low.__round__(2)
    -0.48
    """
    values = np.asarray(differences, np.float64)
    count = len(values)
    mean = float(values.mean()) if count else float("nan")
    if count < 2:
        return Difference(mean, float("nan"), float("nan"), float("nan"), count)
    error = float(values.std(ddof=1) / np.sqrt(count))
    if error == 0:
        return Difference(mean, mean, mean, float(mean == 0), count)
    return Difference(mean, *_student(mean, error, count - 1), count)


def _student(mean: float, error: float, freedom: float) -> tuple[float, float, float]:
    """Return the interval of a mean and its two-sided p by Student's t."""
    reach = float(scipy.stats.t.isf((1 - CONFIDENCE) / 2, freedom)) * error
    return mean - reach, mean + reach, float(2 * scipy.stats.t.sf(abs(mean) / error, freedom))


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

    def p_equal(self, within: float) -> float:
        return p_equal(self.mean, self.error, self.freedom, within)


def p_equal(mean: float, error: float, freedom: float, within: float) -> float:
    """The probability of so small a mean if the true one is `within` or more, in either direction (TOST)."""
    if error == 0:
        return float(abs(mean) >= within)
    return float(scipy.stats.t.sf((within - abs(mean)) / error, freedom))


def crossed_difference(differences: Floats) -> CrossedDifference | None:
    """Bound and test a mean by a model of random effects of seeds and queries.

    A difference is the sum of the mean, an effect of its seed, one of its query, and a rest. Their variances follow
    from the mean squares (the analysis of variance of a two-way layout without replication), negative ones being 0, and
    the degrees of freedom from Satterthwaite's (1946) formula. The mean square of the seeds always counts in it: with
    few seeds, that their effect seems to be 0 is no evidence that it is. None with fewer than two runs or queries, or
    if all differ by the same amount.

    Args:
        differences: float64 [runs, queries], paired; or [agents, seeds] or [agents, seeds, queries] (`agent_cells`).
    """
    if differences.ndim < 2 or min(differences.shape) < 2:
        return None
    if differences.ndim == 3:
        return _of_three_factors(differences)
    seeds, queries = differences.shape
    mean, by_run, by_query = float(differences.mean()), differences.mean(1), differences.mean(0)
    rest = differences - by_run[:, None] - by_query + mean
    freedom = np.array([seeds - 1, queries - 1, (seeds - 1) * (queries - 1)], np.float64)
    squares = np.array([queries * by_run.var(ddof=1), seeds * by_query.var(ddof=1), (rest**2).sum() / freedom[2]])
    if squares.max() <= 1e-24:
        nothing = bool(np.abs(differences).max() <= 1e-12)
        return CrossedDifference(0.0, 0.0, 0.0, 1.0, 0.0, float(freedom[0]), 0.0, 0.0, 0.0) if nothing else None
    of_seed, of_query = (max(float(square - squares[2]), 0.0) for square in squares[:2])
    total = of_seed + of_query + squares[2]
    weights = np.array([1.0, float(of_query > 0), 1.0 - (of_seed > 0) - (of_query > 0)])
    degrees = float(total**2 / ((weights * squares) ** 2 / freedom).sum())
    error = float(np.sqrt(total / (seeds * queries)))
    parts = np.sqrt([of_seed / queries, of_query / seeds, squares[2]]).tolist()
    return CrossedDifference(mean, *_student(mean, error, degrees), error, degrees, *parts)


def _of_three_factors(cells: Floats) -> CrossedDifference | None:
    """Bound and test a mean over [agents, seeds, queries], each of which is a sample, by a model of random effects.

    The mean squares of agents and of seeds always count in the degrees of freedom.
    """
    factors, squares, freedom = range(3), dict[tuple[int, ...], float](), dict[tuple[int, ...], int]()
    effects: dict[tuple[int, ...], Floats] = {(): np.full(cells.shape, cells.mean())}
    for group in [group for size in (1, 2, 3) for group in combinations(factors, size)]:
        rest = tuple(axis for axis in factors if axis not in group)
        below = [effects[part] for size in range(len(group)) for part in combinations(group, size)]
        effects[group] = np.broadcast_to(cells.mean(rest, keepdims=True), cells.shape) - sum(below)
        freedom[group] = int(np.prod([cells.shape[axis] - 1 for axis in group]))
        squares[group] = float((effects[group] ** 2).sum() / freedom[group])
    if max(squares.values()) <= 1e-24:
        nothing = bool(np.abs(cells).max() <= 1e-12)
        return CrossedDifference(0.0, 0.0, 0.0, 1.0, 0.0, float(freedom[0,]), 0.0, 0.0, 0.0) if nothing else None
    whole, pairs = (0, 1, 2), [(0, 1), (0, 2), (1, 2)]
    weights = dict.fromkeys(squares, 0.0) | {whole: 1.0}
    for pair in pairs:  # a component that seems negative is 0
        if squares[pair] > squares[whole]:
            weights[pair], weights[whole] = 1.0, weights[whole] - 1
    variances = dict.fromkeys(factors, 0.0)
    for axis in factors:
        own = {pair: -1.0 for pair in pairs if axis in pair} | {(axis,): 1.0, whole: 1.0}
        variance = sum(sign * squares[group] for group, sign in own.items())
        if variance > 0:
            variances[axis] = variance * cells.shape[axis] / cells.size
            weights = {group: weight + own.get(group, 0.0) for group, weight in weights.items()}
    total = sum(weights[group] * squares[group] for group in squares)
    counted = weights | {(0,): 1.0, (1,): 1.0}
    degrees = total**2 / sum((counted[group] * squares[group]) ** 2 / freedom[group] for group in squares)
    mean, error = float(cells.mean()), float(np.sqrt(total / cells.size))
    spreads = (np.sqrt(variances[0]), np.sqrt(variances[2]), np.sqrt(squares[whole]))
    return CrossedDifference(mean, *_student(mean, error, float(degrees)), error, float(degrees), *map(float, spreads))


def by_seed(a: Mapping[int, float], b: Mapping[int, float]) -> Floats:
    """The differences of two methods' values, in the order of the seeds that both have."""
    return np.array([a[seed] - b[seed] for seed in sorted(a.keys() & b.keys())], np.float64)


def differences(
    a: Sequence[MeasuredRun], b: Sequence[MeasuredRun], by_query: Mapping[str, Floats] | None = None
) -> Floats:
    """The differences of two methods' runs, in the order of seeds or agents: float64 [pairs] or [pairs, queries].

    A pair has one seed, and one value of each setting that runs of both have; runs that share all that are averaged. If
    one method has several agents, a pair is an agent: the mean over all that it shares with the other method. If both
    have several, it is an agent of the same name.

    Args:
        by_query: the values of each run by query, float64 [queries], by its name; None compares the runs' values.
    """
    by_agent, several = _by_agent(a, b, by_query)
    pairs = [[pair[unit] for unit in sorted(pair)] for pair in by_agent]
    if several:  # agents are the units
        pairs = [[_mean(pair)] for pair in pairs if pair]
    return np.array([difference for pair in pairs for difference in pair], np.float64)


def agent_cells(
    a: Sequence[MeasuredRun], b: Sequence[MeasuredRun], by_query: Mapping[str, Floats] | None = None
) -> Floats | None:
    """Return the differences of each agent's run of each seed: float64 [agents, seeds] or [agents, seeds, queries].

    The seeds are those that all agents have. None if no method has several agents, or they share fewer than two seeds:
    agents that were tried with different seeds share no luck.
    """
    by_agent, several = _by_agent(a, b, by_query)
    pairs = [pair for pair in by_agent if pair]
    units = sorted(set.intersection(*(set(pair) for pair in pairs))) if several and len(pairs) > 1 else []
    return np.array([[pair[unit] for unit in units] for pair in pairs], np.float64) if len(units) > 1 else None


def _by_agent(
    a: Sequence[MeasuredRun], b: Sequence[MeasuredRun], by_query: Mapping[str, Floats] | None
) -> tuple[list[dict[Unit, Any]], bool]:
    """Return the differences of each agent's runs by unit, and whether a method has several agents."""
    known = [set(run.settings) for run in (*a, *b)]
    shared = sorted(set.intersection(*known)) if known else []
    of_a, of_b = _means(a, shared, by_query), _means(b, shared, by_query)
    agents = [(agent, agent) for agent in sorted(of_a.keys() & of_b.keys())]
    if min(len(of_a), len(of_b)) < 2:
        agents = list(product(sorted(of_a), sorted(of_b)))
    units = [(of_a[first], of_b[other]) for first, other in agents]
    pairs = [{unit: one[unit] - two[unit] for unit in one.keys() & two.keys()} for one, two in units]
    return pairs, max(len(of_a), len(of_b)) > 1


def units(runs: Sequence[MeasuredRun]) -> Floats:
    """The values that a test of independent samples compares, ascending: if there are several agents, their means."""
    by_agent = defaultdict[str, list[float]](list)
    for run in runs:
        by_agent[run.agent].append(run.value)
    several = len(by_agent) > 1
    values = [_mean(same) for same in by_agent.values()] if several else [run.value for run in runs]
    return np.sort(np.array(values, np.float64))


def are_means(runs: Sequence[MeasuredRun]) -> bool:
    """Whether any of the `units` is a mean of several runs, which spreads less than a run."""
    return 1 < len({run.agent for run in runs}) < len(runs)


def _mean(values: Sequence[Any]) -> Any:
    """The mean of numbers, exactly, or of arrays."""
    return np.mean(values, axis=0) if isinstance(values[0], np.ndarray) else fmean(sorted(values))


def _means(
    runs: Sequence[MeasuredRun], shared: Sequence[str], by_query: Mapping[str, Floats] | None
) -> dict[str, dict[Unit, Any]]:
    """The mean value by agent and unit."""
    values: dict[str, dict[Unit, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        unit = (("seed", f"{run.seed:020}"), *((key, run.settings[key]) for key in shared))
        values[run.agent][unit].append(run.value if by_query is None else by_query[run.name])
    return {agent: {unit: _mean(same) for unit, same in units.items()} for agent, units in values.items()}
