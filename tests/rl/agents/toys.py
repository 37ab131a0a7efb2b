"""Small agents, and what tests do with their trainers."""

from collections.abc import Callable
from typing import Any

from rl.agents.actor_critic import ActorCritic
from rl.agents.agent import Agent
from rl.agents.ppo import PPO
from rl.agents.random import RandomAgent
from rl.agents.reinforce import Reinforce
from rl.agents.trainer import AgentTrainer

SMALL: dict[str, Callable[[], Agent]] = {
    "actor_critic": lambda: ActorCritic(hidden=20),
    "reinforce": lambda: Reinforce(hidden=20),
    "ppo": lambda: PPO(hidden=20, fragment=9, minibatch=16, epochs=2),
    "ppo_episodes": lambda: PPO(hidden=20, episodes=1, minibatch=16, epochs=2),
    "random": RandomAgent,
}


def play(trainer: AgentTrainer, updates: int) -> list[dict[str, Any]]:
    return [row for _ in range(updates) for row in trainer.update()]
