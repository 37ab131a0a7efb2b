"""The random agent, which every learned policy must beat."""

from __future__ import annotations

from typing import Any

from rl.agents.agent import Agent
from rl.algorithms.actor_critic.config import ActorCriticConfig
from rl.algorithms.uniform import UniformAlgorithm


class RandomAgent(Agent):
    """Every action as probable as another, and nothing learned: what a policy must beat (Cohen et al. 2019, 5.2)."""

    def config(self, copies: int) -> ActorCriticConfig:
        return UniformAlgorithm.get_default_config()

    def network(self) -> dict[str, Any]:
        return {"channels": 1, "hidden": 1, "last": 0.0}
