"""Pairs the runs of two methods by seed, and bounds and tests the mean of their differences.

A seed sets the first weights and the order of the examples of all methods alike: what its runs share cancels out in
their difference. All runs with one agent share its luck, and all agents that were tried with a seed share the luck of
the other method's run: agents and seeds are then both a sample (`agent_cells`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, product
from statistics import fmean
from typing import Any, NamedTuple, TypeVar

import numpy as np
import polars as pl

from pyrite.analysis.statistics.crossed import EQUAL, NAN, Floats, deviation, mean, student

UNKNOWN: Mapping[str, Floats] = {}
"""The values by query of runs for which they are not known."""
LEAST_PAIRS = 3
"""The fewest pairs that are tested: two have one degree of freedom."""
Key = TypeVar("Key", bound=Hashable)
Unit = tuple[tuple[str, str], ...]
"""A seed and the settings that runs of both methods have."""


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
    parts = results.drop_nulls("value").partition_by(column, as_dict=True, maintain_order=True)
    return {str(name): _means(part.select("seed", "value").iter_rows()) for (name,), part in parts.items()}


def mean_difference(differences: Sequence[float] | Floats) -> Difference:
    """Bound and test the mean of paired differences by Student's t.

    There is neither an interval nor p with fewer than LEAST_PAIRS, or if all differ by the same amount, which leaves
    nothing to measure the mean by. If no pair differs, the interval has no width, and p is 1.

    >>> mean_difference([1.0, 2.0, 3.0]).low.__round__(2)
    -0.48
    """
    values = np.asarray(differences, np.float64)
    count = len(values)
    middle = mean(values)
    if count < LEAST_PAIRS:
        return Difference(middle, NAN, NAN, NAN, count)
    if np.abs(values).max() <= EQUAL:
        return Difference(0.0, 0.0, 0.0, 1.0, count)
    if np.ptp(values) <= EQUAL * max(1.0, abs(middle)):
        return Difference(middle, NAN, NAN, NAN, count)
    error = deviation(values) / float(np.sqrt(count))
    return Difference(middle, *student(middle, error, count - 1), count)


def by_seed(a: Mapping[int, float], b: Mapping[int, float]) -> Floats:
    """The differences of two methods' values, in the order of the seeds that both have."""
    return np.array([a[seed] - b[seed] for seed in sorted(a.keys() & b.keys())], np.float64)


def differences(a: Sequence[MeasuredRun], b: Sequence[MeasuredRun], by_query: Mapping[str, Floats] = UNKNOWN) -> Floats:
    """The differences of two methods' runs, in the order of seeds or agents: float64 [pairs] or [pairs, queries].

    A pair has one seed, and one value of each setting that runs of both have; runs that share all that are averaged. If
    one method has several agents, a pair is an agent: the mean over all that it shares with the other method. If both
    have several, it is an agent of the same name.

    Args:
        by_query: the values of each run by query, float64 [queries], by its name; UNKNOWN compares the runs' values.
    """
    by_agent, several = _by_agent(a, b, by_query)
    pairs = [[pair[unit] for unit in sorted(pair)] for pair in by_agent]
    if several:  # agents are the units
        pairs = [[_mean(pair)] for pair in pairs]
    return np.array([*chain(*pairs)], np.float64)


def agent_cells(a: Sequence[MeasuredRun], b: Sequence[MeasuredRun], by_query: Mapping[str, Floats] = UNKNOWN) -> Floats:
    """Return the differences of each agent's run of each seed: float64 [agents, seeds] or [agents, seeds, queries].

    The seeds are those that all agents have; there are none if no method has several agents. With fewer than two of
    either nothing is crossed: agents that were tried with different seeds share no luck.
    """
    by_agent, several = _by_agent(a, b, by_query)
    units = sorted(set.intersection(*map(set, by_agent))) if several and len(by_agent) > 1 else []
    return np.array([[pair[unit] for unit in units] for pair in by_agent], np.float64)


def _by_agent(
    a: Sequence[MeasuredRun], b: Sequence[MeasuredRun], by_query: Mapping[str, Floats]
) -> tuple[list[dict[Unit, Any]], bool]:
    """Return the differences of each agent's runs by unit, if it has any, and whether a method has several agents."""
    shared = _shared_settings(a, b)
    of_a, of_b = _by_unit(a, shared, by_query), _by_unit(b, shared, by_query)
    agents: Iterable[tuple[str, str]] = product(sorted(of_a), sorted(of_b))
    if min(len(of_a), len(of_b)) > 1:  # both have several: those of one name
        agents = ((agent, agent) for agent in sorted(of_a.keys() & of_b.keys()))
    units = [(of_a[first], of_b[other]) for first, other in agents]
    pairs = [{unit: one[unit] - two[unit] for unit in one.keys() & two.keys()} for one, two in units]
    return [*filter(None, pairs)], max(len(of_a), len(of_b)) > 1


def complete_runs(a: Sequence[MeasuredRun], b: Sequence[MeasuredRun]) -> tuple[list[MeasuredRun], list[MeasuredRun]]:
    """Return the runs of two methods that have a counterpart: of the seeds and settings that all agents of both have,
    and of the agents that both have, if both have several.

    With fewer than two such seeds and settings, of those that any agents of both have (see `agent_cells`).
    """
    shared = _shared_settings(a, b)
    agents = {run.agent for run in a}, {run.agent for run in b}
    both = set.intersection(*agents) if min(map(len, agents)) > 1 else set.union(*agents)
    sides = [[(run, _unit(run, shared)) for run in runs if run.agent in both] for runs in (a, b)]
    of_any = set.intersection(*({unit for _, unit in side} for side in sides))
    of_agents = ({unit for run, unit in side if run.agent == agent} for side in sides for agent in _agents(side))
    of_all = of_any.intersection(*of_agents)
    kept = of_all if len(of_all) > 1 else of_any
    first, other = ([run for run, unit in side if unit in kept] for side in sides)
    return first, other


def _agents(side: Sequence[tuple[MeasuredRun, Unit]]) -> set[str]:
    return {run.agent for run, _ in side}


def _shared_settings(a: Sequence[MeasuredRun], b: Sequence[MeasuredRun]) -> list[str]:
    """Return the settings that all runs of both methods have."""
    known = [set(run.settings) for run in (*a, *b)] or [set[str]()]
    return sorted(set.intersection(*known))


def units(runs: Sequence[MeasuredRun]) -> Floats:
    """Return the values that a test of independent samples compares, ascending: those of the runs, or if there are
    several agents, the means of each."""
    means = _means((run.agent, run.value) for run in runs)
    return np.sort(np.array([*means.values()] if len(means) > 1 else [run.value for run in runs], np.float64))


def are_means(runs: Sequence[MeasuredRun]) -> bool:
    """Return whether any of the `units` is a mean of several runs, which spreads less than a run."""
    return 1 < len({run.agent for run in runs}) < len(runs)


def _mean(values: Sequence[Any]) -> Any:
    """Return the mean of numbers, exactly, or of arrays."""
    if len(values) == 1:  # most often, and faster
        return values[0]
    return np.mean(values, axis=0) if isinstance(values[0], np.ndarray) else fmean(sorted(values))


def _means(values: Iterable[tuple[Key, Any]]) -> dict[Key, Any]:
    """Return the mean of the values of each key."""
    collected = defaultdict[Key, list[Any]](list)
    for key, value in values:
        collected[key].append(value)
    return {key: _mean(same) for key, same in collected.items()}


def _by_unit(
    runs: Sequence[MeasuredRun], shared: Sequence[str], by_query: Mapping[str, Floats]
) -> dict[str, dict[Unit, Any]]:
    """Return the mean value by agent and unit."""
    by_agent = defaultdict[str, dict[Unit, Any]](dict)
    means = _means(((run.agent, _unit(run, shared)), by_query[run.name] if by_query else run.value) for run in runs)
    for (agent, unit), value in means.items():
        by_agent[agent][unit] = value
    return by_agent


def _unit(run: MeasuredRun, shared: Sequence[str]) -> Unit:
    return ("seed", f"{run.seed:020}"), *((key, run.settings[key]) for key in shared)
