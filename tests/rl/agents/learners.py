"""Learners of policy gradients on a tiny network, for updates worked by hand."""

from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Discrete
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from torch import Tensor

from pyrite.rl.agents.policy_gradient import PolicyGradientLearner, transitions
from pyrite.rl.rllib.module import PolicyModule

SPACE = Dict({"model": Box(-1.0, 1.0, (2,), np.float32)})
GAMMA, ACTOR_LR, CRITIC_LR = 0.9, 0.3, 0.2


def learner_of(kind: type[PolicyGradientLearner], actions: Any = None, **options: Any) -> Any:
    """A learner with plain gradient steps."""
    plain = {"actor_lr": ACTOR_LR, "critic_lr": CRITIC_LR, "optimizer": "sgd", "normalize": False, "entropy": 0.0}
    config = AlgorithmConfig().training(gamma=GAMMA, learner_config_dict=plain | options).debugging(seed=0)
    widths = {"seed": 1, "hidden": 4, "last": 1.0}
    spec = RLModuleSpec(PolicyModule, SPACE, actions or Discrete(3), model_config=widths)
    learner = kind(config=config, module_spec=spec)
    learner.build()
    return learner


def episode_of(length: int, terminated: bool, truncated: bool = False, seed: int = 0, picks: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    shape = (length, picks) if picks else length
    return SingleAgentEpisode(
        observations=[{"model": row} for row in rng.uniform(-1, 1, (length + 1, 2)).astype(np.float32)],
        observation_space=SPACE,
        actions=list(rng.integers(0, 3, shape)),
        rewards=rng.normal(size=length).tolist(),
        terminated=terminated,
        truncated=truncated,
        len_lookback_buffer=0,
    ).to_numpy()


def stepped(learner: Any, episodes: list[Any]) -> tuple[dict[str, Tensor], dict[str, Tensor], Any]:
    """Weights before and after an update, and the module as it was before."""
    module = learner.module[DEFAULT_MODULE_ID]
    before = {name: value.detach().clone() for name, value in module.named_parameters()}
    learner.update(batch=transitions(episodes))
    after = {name: value.detach().clone() for name, value in module.named_parameters()}
    with torch.no_grad():
        for name, value in module.named_parameters():
            value.copy_(before[name])
    return before, after, module


def observation(episode: Any, step: int) -> dict[str, Tensor]:
    return {"model": torch.from_numpy(episode.get_observations(step)["model"])[None]}


def gradient(value: Tensor, module: Any) -> dict[str, Tensor]:
    module.zero_grad()
    value.backward()
    return {name: p.grad.clone() for name, p in module.named_parameters() if p.grad is not None}
