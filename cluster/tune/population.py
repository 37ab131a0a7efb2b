"""Decides which runs of a population go on from another's state, and under which settings (PB2)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster.config.build import build, locate
from ranking.errors import BadInput
from rl.agents.time_varying_bandit import favoured


@dataclass(frozen=True)
class Exploit:
    """A run that is behind goes on from one that is ahead.

    Args:
        behind, ahead: their places among the runs that are compared.
        shares: the new settings, each as its share of its interval.
    """

    behind: int
    ahead: int
    shares: tuple[float, ...]


class PopulationBandits:
    """Population based bandits (PB2, Parker-Holder et al. 2020, algorithm 1) over the settings of a search.

    Runs train side by side. After every `perturbation_interval` epochs they wait for each other; those with the lowest
    validation then go on from the states of some of the highest, each under settings that a Gaussian process over time
    and settings favours (`rl.agents.time_varying_bandit`). All others go on as they are.

    Options are called as those of Ray Tune's own `PB2`, which decides in the order in which trials happen to report, by
    global generators.

    Args:
        perturbation_interval: epochs; None: a quarter of the epochs that a run has at most.
        quantile_fraction: share of the runs under way that is behind, and of those that are ahead.
        kappa: deviations that are added to the mean where the process looks for settings.
        seed: of every draw.

    Raises:
        BadInput: where one is out of its range.
    """

    def __init__(
        self,
        perturbation_interval: int | None = None,
        quantile_fraction: float = 0.25,
        kappa: float = 1.0,
        seed: int = 0,
    ) -> None:
        if perturbation_interval is not None and perturbation_interval < 1:
            what = f"perturbation_interval is {perturbation_interval}"
            raise BadInput(what, "trial_scheduler.perturbation_interval", "choose a whole number from 1 up")
        if not 0 < quantile_fraction <= 0.5:
            what = f"quantile_fraction is {quantile_fraction}"
            raise BadInput(what, "trial_scheduler.quantile_fraction", "choose a share above 0, 0.5 at most")
        if kappa < 0:
            raise BadInput(f"kappa is {kappa}", "trial_scheduler.kappa", "choose a number from 0 up")
        self.perturbation_interval, self.quantile_fraction = perturbation_interval, quantile_fraction
        self.kappa, self.seed = kappa, seed

    def interval(self, max_epochs: int) -> int:
        """Epochs between two comparisons of runs that have so many at most.

        Raises:
            BadInput: where no run has epochs left behind the first.
        """
        found = self.perturbation_interval or max(1, max_epochs // 4)
        if found >= max_epochs:
            what = f"runs of {max_epochs} epochs are over when they are first compared, after {found}"
            raise BadInput(what, "trial_scheduler.perturbation_interval", "choose fewer, or more training.max_epochs")
        return found

    def exploit(
        self,
        scores: Sequence[float],
        known: Sequence[tuple[float, Sequence[float], float]],
        time: float,
        rng: np.random.Generator,
    ) -> list[Exploit]:
        """Which runs go on from which, and under what.

        Args:
            scores: validation of the runs under way, in the order in which they were proposed.
            known: of every part of a run so far its time (0 to 1, where it began), its settings as shares, and what
                validation gained in it.
            time: where the part to come begins.
            rng: draws who is followed, and the settings that are tried.
        """
        count = min(math.ceil(len(scores) * self.quantile_fraction), len(scores) // 2)
        if not count:
            return []
        order = np.argsort(np.asarray(scores), kind="stable")
        inputs: NDArray[np.float64] = np.array([[when, *shares] for when, shares, _ in known])
        gains = np.array([gain for _, _, gain in known])
        ahead = [int(rng.choice(order[-count:])) for _ in range(count)]
        found = favoured(inputs, gains, time, count, rng, self.kappa)
        behind = zip(order[:count].tolist(), ahead, found.tolist(), strict=True)
        return [Exploit(loser, winner, tuple(shares)) for loser, winner, shares in behind]


def bandits_of(node: Mapping[str, Any] | None) -> PopulationBandits | None:
    """The bandits that the options of a `trial_scheduler` are of; None where it is none, or a scheduler of Ray Tune.

    Raises:
        BadInput: where an option is refused.
    """
    if node is None or not issubclass(locate(node["_target_"]), PopulationBandits):
        return None
    made: PopulationBandits = build(node, "trial_scheduler")
    return made
