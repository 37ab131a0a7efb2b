"""A runner's copies where they are held by a host."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import ray
from numpy.typing import NDArray

from rl.copies import IDLE, Infos, Observations, Transition

PATIENCE = 300.0
"""Seconds that a runner waits for a host that is being restarted."""


class HostedCopies(gymnasium.vector.VectorEnv):
    """What `rl.copies.Copies` is, at the other end of a call: same steps, same results.

    Args:
        host: name of the actor.
        first, count: which copies.
        go_on: where the host is lost, the episodes that it held end there, cut short (`truncated`, with `lost` in the
            info), and start over on the restarted one; else the loss is raised.
    """

    metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}

    def __init__(self, host: str, first: int, count: int, go_on: bool = False) -> None:
        self.host, self.first, self.num_envs, self.go_on = host, first, count, go_on
        self._latest: tuple[Observations, Infos] = ({}, [])
        self._attach(None)

    def _attach(self, begun: list[tuple[int, int]] | None) -> None:
        """Ask for the copies, waiting for a host that is restarting."""
        given_up = time.monotonic() + PATIENCE
        while True:
            try:
                self.actor: Any = ray.get_actor(self.host)
                spaces: Any = ray.get(self.actor.attach.remote(self.first, self.num_envs, begun))
                self.single_observation_space, self.single_action_space = spaces
                return
            except (ray.exceptions.RayActorError, ValueError):
                if not self.go_on or time.monotonic() > given_up:
                    raise
                time.sleep(0.2)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Observations, Infos]:  # type: ignore[override]
        try:
            self._latest = self._ask("reset")
        except ray.exceptions.RayActorError:
            if not self.go_on:
                raise
            self._attach(self._begun())
            self._latest = self._ask("reset")
        return self._latest

    def step(self, actions: NDArray[np.int64]) -> Transition:  # type: ignore[override]
        try:
            transition: Transition = self._ask("step", actions)
        except ray.exceptions.RayActorError:
            if not self.go_on:
                raise
            transition = self._lost(actions)
        self._latest = transition[0], transition[-1]
        return transition

    def _ask(self, method: str, *arguments: Any) -> Any:
        """Call a method of the host for these copies."""
        return ray.get(getattr(self.actor, method).remote(self.first, *arguments))

    def _begun(self) -> list[tuple[int, int]] | None:
        return [(info["episode"], info["decision"]) for info in self._latest[1]] or None

    def _lost(self, actions: NDArray[np.int64]) -> Transition:
        """The host is gone: end every copy's episode where it was last seen, and start it over."""
        before, ended = self._latest
        self._attach(self._begun())
        observations, infos = self._ask("reset")
        stepped = ~np.any(np.reshape(actions == IDLE, (self.num_envs, -1)), axis=1)
        infos = [
            info | {"final_observation": {name: part[copy] for name, part in before.items()},
                    "final_info": _plain(ended[copy]) | {"lost": True}}
            if stepped[copy] else info
            for copy, info in enumerate(infos)
        ]  # fmt: skip
        nothing = np.zeros(self.num_envs, np.float32)
        return observations, nothing, np.zeros(self.num_envs, bool), stepped, infos

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = self._ask("state_dict")
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._ask("load_state_dict", state)

    def close(self, **arguments: Any) -> None:
        """Let the host forget them; it ends with the learning."""
        with contextlib.suppress(ray.exceptions.RayError):
            self._ask("detach")


def _plain(info: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in info.items() if not key.startswith("final_")}
