"""Trains an actor and a critic by policy gradients: the base of actor-critic and REINFORCE."""

from __future__ import annotations

from abc import abstractmethod
from itertools import chain, groupby, pairwise
from typing import Any

import numpy as np
import torch
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from torch import Tensor

from pyrite.rl.agents.agent import Agent
from pyrite.rl.rllib.algorithm import LockstepConfig

ENDS = "ends"
"""Column that marks the last step of each chunk of an episode."""
MEMORY = 0.99
"""Decay of the weights in the advantages' running size, per update."""
OPTIMIZERS = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}


class PolicyGradientLearner(TorchLearner):
    """Moves the critic towards targets, and the actor along (target − v(s)) · ∂ ln π(s, a).

    The options of `pyrite.rl.agents.actor_critic.ActorCritic` are in the configuration's `learner_config_dict`.
    """

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        options = config.learner_config_dict
        for name in ("actor", "critic"):
            parameters, rate = list(getattr(self._module[module_id], name).parameters()), options[f"{name}_lr"]
            self.register_optimizer(
                module_id=module_id,
                optimizer_name=name,
                optimizer=OPTIMIZERS[options["optimizer"]](parameters, lr=rate),
                params=parameters,
                lr_or_lr_schedule=rate,
            )

    @abstractmethod
    def targets(self, batch: dict[str, Any], next_values: Tensor) -> Tensor:
        """Return the targets of v(s), shape [n].

        Args:
            batch: transitions by copy and time.
            next_values: v(s') [n], 0 if the episode terminated in s'.
        """

    def centred(self, advantages: Tensor) -> Tensor:
        """Return the advantages [n] of an update relative to the level that counts as neutral; unchanged by default."""
        return advantages

    def compute_loss_for_module(
        self, *, module_id: str, config: Any, batch: dict[str, Any], fwd_out: dict[str, Any]
    ) -> Tensor:
        module, options = self.module[module_id].unwrapped(), config.learner_config_dict
        with torch.no_grad():
            following = module.compute_values({Columns.OBS: batch[Columns.NEXT_OBS]})
            targets = self.targets(batch, following * (1 - batch[Columns.TERMINATEDS].float()))
        values = module.compute_values(batch)
        advantages = (targets - values).detach()
        if options["normalize"]:
            advantages = self.centred(advantages)
            advantages = advantages / _running_rms(module.advantage_moments, advantages)
        policy = module.get_train_action_dist_cls().from_logits(fwd_out[Columns.ACTION_DIST_INPUTS])
        actor = -(advantages * policy.logp(batch[Columns.ACTIONS])).mean()
        actor = actor - options["entropy"] * policy.entropy().mean()
        # ½(target − v)² with the target held has the gradient −(target − v)·∂v.
        return actor + 0.5 * (targets - values).square().mean()


def _running_rms(moments: Tensor, advantages: Tensor) -> Tensor:
    """Return the running root mean square of advantages, after one more batch of them.

    The moments [2] are the weighted sums of mean squares and of weights; both are updated in place.
    """
    moments.mul_(MEMORY).add_((1 - MEMORY) * torch.stack([advantages.square().mean(), moments.new_ones(())]))
    return (moments[0] / moments[1]).sqrt().clamp(min=1e-8)


def transitions(episodes: list[SingleAgentEpisode]) -> MultiAgentBatch:
    """Convert chunks of episodes to rows (s, a, r, s') in the same order."""
    lengths = [len(episode) for episode in episodes]
    observations = [episode.get_observations(slice(0, len(episode) + 1)) for episode in episodes]
    terminated, ends = np.zeros((2, sum(lengths)), bool)
    ends[np.cumsum(lengths) - 1] = True
    terminated[ends] = [episode.is_terminated for episode in episodes]
    names = observations[0].keys()
    columns = {
        Columns.OBS: {name: np.concatenate([part[name][:-1] for part in observations]) for name in names},
        Columns.NEXT_OBS: {name: np.concatenate([part[name][1:] for part in observations]) for name in names},
        Columns.ACTIONS: np.concatenate([episode.get_actions() for episode in episodes]),
        Columns.REWARDS: np.concatenate([episode.get_rewards() for episode in episodes]).astype(np.float32),
        Columns.TERMINATEDS: terminated,
        ENDS: ends,
    }
    return MultiAgentBatch({DEFAULT_MODULE_ID: SampleBatch(columns)}, env_steps=sum(lengths))


class PolicyGradientAgent(Agent):
    """Base of agents with an actor and a critic that have separate learning rates.

    Args:
        quota: see `pyrite.rl.agents.agent.Agent`.
        widths: options of the networks (see `pyrite.rl.networks.PolicyNetwork`).
        learners: see `pyrite.rl.agents.agent.Agent`.
        options: actor_lr, critic_lr, optimizer, normalize and entropy (see
            `pyrite.rl.agents.actor_critic.ActorCritic`).
    """

    def __init__(self, quota: dict[str, int], widths: dict[str, Any], learners: int = 0, **options: Any) -> None:
        self.quota, self.widths, self.learners, self.options = quota, widths, learners, options

    def config(self) -> AlgorithmConfig:
        return LockstepConfig().training(learner_config_dict=self.options)

    def update_arguments(self, episodes: list[SingleAgentEpisode], number: int, config: AlgorithmConfig) -> Any:
        if not self.learners:
            return {"batch": transitions(episodes)}
        copies = [list(parts) for _, parts in groupby(episodes, key=lambda part: part.get_infos(0)["copy"])]
        bounds = [len(copies) * learner // self.learners for learner in range(self.learners + 1)]
        return {"batches": [transitions(list(chain(*copies[start:end]))) for start, end in pairwise(bounds)]}
