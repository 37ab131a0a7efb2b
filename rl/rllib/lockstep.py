"""Samples from all copies, then updates, in an order that never changes."""

from __future__ import annotations

from typing import Any

import ray
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rl.rllib.runner import Summary


class Lockstep(Algorithm):
    """An algorithm whose runners all receive the newest weights, then sample the same quota from each copy.

    RLlib's synchronous algorithms send weights without waiting for them and may drop a message; here weights are sent
    with the request to sample. The configuration has `quota`, e.g. `{"steps": 1}` or `{"episodes": 1}`.
    """

    def training_step(self) -> None:
        weights = self.learner.module[DEFAULT_MODULE_ID].get_state(inference_only=True)
        if self.runners:
            request = ray.put(weights)
            gathered = ray.get([runner.collect.remote(request, **self.config.quota) for runner in self.runners])
        else:
            gathered = [self.env_runner.collect(weights, **self.config.quota)]
        self.ended: list[Summary] = [row for _, ended, _ in gathered for row in ended]
        self.decisions = sum(steps for _, _, steps in gathered)
        self.learn([episode for episodes, _, _ in gathered for episode in episodes])

    def learn(self, episodes: list[SingleAgentEpisode]) -> None:
        """Update the weights."""
        self.learner_group.update(episodes=episodes)

    @property
    def runners(self) -> list[Any]:
        """The runners that are actors, in the order of their copies; none if this process steps the copies."""
        return [actor for _, actor in sorted(self.env_runner_group._worker_manager.actors().items())]

    @property
    def learner(self) -> Any:
        """The learner, which is in this process."""
        return self.learner_group._learner
