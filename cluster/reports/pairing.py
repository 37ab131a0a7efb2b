"""Pairs the runs of two methods by their seed, so that what both have in common cancels out.

All methods of a study meet the same seeds, and a seed sets the first weights and the order of the examples: runs of one
seed do well or badly together. Agents, on the other hand, are drawn anew by each learning, and all runs with one agent
share its luck: where a method has several agents, the agent is the unit, however many seeds each was tried with.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

Place = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Run:
    """A finished run.

    Args:
        value: what it reached.
        seed: of its weights and the order of its examples.
        agent: that chose its negatives, by the seed of its learning; "-" for none.
        settings: swept keys that do not tell methods apart, with their values.
    """

    value: float
    seed: int = 0
    agent: str = "-"
    settings: Mapping[str, str] = field(default_factory=dict)


def differences(a: Sequence[Run], b: Sequence[Run]) -> NDArray[np.float64]:
    """What `a` reaches more than `b`, once for each pair.

    A pair has one seed, and one value of each setting that runs of both have; runs that share all that are averaged. If
    a side has several agents, a pair is an agent: the mean over all that it shares with the other side. If both have,
    it is an agent of the same name.

    Returns:
        In the order of the seeds or agents; empty where nothing can be paired.
    """
    shared = sorted(_settings(a) & _settings(b))
    of_a, of_b = _means(a, shared), _means(b, shared)
    if len(of_a) > 1 and len(of_b) > 1:
        pairs = [_common(of_a[agent], of_b[agent]) for agent in sorted(of_a.keys() & of_b.keys())]
    elif len(of_a) > 1:
        pairs = [_common(of_a[agent], other) for agent in sorted(of_a) for other in of_b.values()]
    elif len(of_b) > 1:
        pairs = [_common(own, of_b[agent]) for agent in sorted(of_b) for own in of_a.values()]
    else:
        every = [_common(own, other) for own in of_a.values() for other in of_b.values()]
        return np.array([difference for pair in every for difference in pair], np.float64)
    return np.array([fmean(pair) for pair in pairs if pair], np.float64)


def units(runs: Sequence[Run]) -> NDArray[np.float64]:
    """What a test of independent samples takes as its values, ascending: of several agents the mean of each."""
    agents = agent_means(runs)
    return np.sort(np.array(list(agents.values()) if len(agents) > 1 else [run.value for run in runs], np.float64))


def are_means(runs: Sequence[Run]) -> bool:
    """Whether any of the `units` is a mean of several runs, which spreads less than a run."""
    return 1 < len({run.agent for run in runs}) < len(runs)


def agent_means(runs: Sequence[Run]) -> dict[str, float]:
    """The mean of each agent's runs."""
    values: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        values[run.agent].append(run.value)
    return {agent: fmean(sorted(own)) for agent, own in sorted(values.items())}


def _settings(runs: Iterable[Run]) -> set[str]:
    """The settings that all runs have."""
    known = [set(run.settings) for run in runs]
    return set.intersection(*known) if known else set()


def _means(runs: Sequence[Run], shared: Sequence[str]) -> dict[str, dict[Place, float]]:
    """The mean value by agent and place: a seed and the shared settings."""
    values: dict[str, dict[Place, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        place = (("seed", f"{run.seed:020}"), *((key, run.settings[key]) for key in shared))
        values[run.agent][place].append(run.value)
    return {agent: {place: fmean(sorted(own)) for place, own in of.items()} for agent, of in values.items()}


def _common(own: Mapping[Place, float], other: Mapping[Place, float]) -> list[float]:
    return [own[place] - other[place] for place in sorted(own.keys() & other.keys())]
