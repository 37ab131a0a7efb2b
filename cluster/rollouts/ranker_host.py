"""Holds the rankers of many copies of the environment in an actor, and steps them in one call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gymnasium import spaces
from numpy.typing import NDArray

from cluster.rollouts.environments import Environments
from cluster.rollouts.host_metrics import HostMetrics
from cluster.telemetry.actor_names import own_name
from rl.copies import Copies, Transition


class RankerHost:
    """Copies of the environment on this process's cores or share of a GPU, for runners in other processes.

    It takes a configuration and no arrays: its parts come from the cache. A runner's share of the copies is named by
    the first of them.

    Args:
        config: of a learning.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self._make = Environments(config)
        self._parts = self._make.parts()
        self._shares: dict[int, Copies] = {}
        self._metrics = HostMetrics(own_name("host"))

    def attach(self, first: int, count: int) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
        """Make the copies first … first + count − 1, unless they are there.

        Args:
            first, count: which ones.

        Returns:
            Observation and action space of one copy.
        """
        if first not in self._shares:
            self._shares[first] = self._make.copies(self._parts, first, count)
            self._metrics.copies += count
        copies = self._shares[first]
        return copies.single_observation_space, copies.single_action_space

    def detach(self, first: int) -> None:
        """Forget a share."""
        forgotten = self._shares.pop(first, None)
        self._metrics.copies -= forgotten.num_envs if forgotten is not None else 0

    def reset(self, first: int) -> Any:
        """`Copies.reset` of a share."""
        with self._metrics.busy():
            return self._shares[first].reset()

    def step(self, first: int, actions: NDArray[Any]) -> Transition:
        """`Copies.step` of a share."""
        with self._metrics.busy():
            return self._shares[first].step(actions)

    def state_dict(self, first: int) -> dict[str, Any]:
        """`Copies.state_dict` of a share."""
        return self._shares[first].state_dict()

    def load_state_dict(self, first: int, state: Mapping[str, Any]) -> None:
        """`Copies.load_state_dict` of a share."""
        self._shares[first].load_state_dict(state)
