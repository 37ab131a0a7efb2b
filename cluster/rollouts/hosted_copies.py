"""Steps copies of the environment that a ranker host holds."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import gymnasium
import ray
from numpy.typing import NDArray

from rl.copies import Infos, Observations, Transition


class HostedCopies(gymnasium.vector.VectorEnv):
    """What `rl.copies.Copies` is, at the other end of a call: same steps, same results.

    Args:
        host: name of the actor.
        first, count: which copies.
    """

    metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}

    def __init__(self, host: str, first: int, count: int) -> None:
        self.host, self.first, self.num_envs = host, first, count
        self.actor: Any = ray.get_actor(host)
        spaces: Any = ray.get(self.actor.attach.remote(first, count))
        self.single_observation_space, self.single_action_space = spaces

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Observations, Infos]:  # type: ignore[override]
        observed: tuple[Observations, Infos] = self._ask("reset")
        return observed

    def step(self, actions: NDArray[Any]) -> Transition:  # type: ignore[override]
        transition: Transition = self._ask("step", actions)
        return transition

    def _ask(self, method: str, *arguments: Any) -> Any:
        """Call a method of the host for these copies."""
        return ray.get(getattr(self.actor, method).remote(self.first, *arguments))

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = self._ask("state_dict")
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._ask("load_state_dict", state)

    def close(self, **arguments: Any) -> None:
        """Let the host forget them; it ends with the learning."""
        with contextlib.suppress(ray.exceptions.RayError):
            self._ask("detach")
