"""Steps several copies of the environment in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

IDLE = -1
"""The action that does not step a copy."""

Observations = dict[str, NDArray[np.float32]]
Infos = list[dict[str, Any]]
Transition = tuple[Observations, NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], Infos]


class VectorEnvironment:
    """Environments that are stepped one after the other in this process, each at a different point of its episode.

    A copy whose episode ends starts the next one in the same step: the returned observation is the new episode's first,
    and `infos[i]["final_observation"]` and `infos[i]["final_info"]` hold the end of the old one.

    Args:
        environments: environments with equal `Dict` observation spaces and equal action spaces.
    """

    def __init__(self, environments: Sequence[Any]) -> None:
        self.environments = list(environments)
        self.num_envs = len(self.environments)
        first = self.environments[0]
        self.single_observation_space, self.single_action_space = first.observation_space, first.action_space
        self._latest: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def reset(self) -> tuple[Observations, Infos]:
        """Start an episode in every copy; after `load_state_dict`, resume the saved episodes."""
        self._latest = [environment.reset() for environment in self.environments]
        return self._observations(), [info for _, info in self._latest]

    def step(self, actions: NDArray[np.int64]) -> Transition:
        """Step every copy whose action is not `IDLE`; the actions are [n], or [n, picks] if one is several picks."""
        rewards = np.zeros(self.num_envs, np.float32)
        terminated, truncated = np.zeros((2, self.num_envs), bool)
        infos = [info for _, info in self._latest]
        active = [index for index, action in enumerate(actions) if not np.any(action == IDLE)]
        for index in active:
            environment, action = self.environments[index], actions[index]
            observation, reward, over, cut, info = environment.step(int(action) if np.ndim(action) == 0 else action)
            rewards[index], terminated[index], truncated[index] = reward, over, cut
            final = {}
            if over or cut:
                final = {"final_observation": observation, "final_info": info}
                observation, info = environment.reset()
            self._latest[index] = observation, info
            infos[index] = info | final
        return self._observations(), rewards, terminated, truncated, infos

    def _observations(self) -> Observations:
        first = self._latest[0][0]
        return {name: np.stack([observation[name] for observation, _ in self._latest]) for name in first}

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the copies under `copies`, in their order, so that they can be divided again."""
        return {"copies": [environment.state_dict() for environment in self.environments]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the states of the same number of copies; `reset` then returns their observations."""
        for environment, of_copy in zip(self.environments, state["copies"], strict=True):
            environment.load_state_dict(of_copy)

    def close(self) -> None:
        """Close every copy."""
        for environment in self.environments:
            environment.close()
