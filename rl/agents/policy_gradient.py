"""Trains an actor and a critic by policy gradients: the base of actor-critic and REINFORCE."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from torch import Tensor

from rl.agents.agent import Agent
from rl.rllib.lockstep import Lockstep
from rl.rllib.module import PolicyModule

ENDS = "ends"
"""Column that marks the last step of each chunk of an episode."""
MEMORY = 0.99
"""Decay of the weights in the advantages' running size, per update."""
OPTIMIZERS = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}


class PolicyGradientConfig(AlgorithmConfig):
    """Options that RLlib passes to the learner and the runners.

    Attributes:
        actor_lr, critic_lr, optimizer, normalize, entropy: see `rl.agents.actor_critic.ActorCritic`.
        quota: what each copy samples for an update (see `rl.rllib.lockstep.Lockstep`).
    """

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class=algo_class or PolicyGradient)
        self.actor_lr = self.critic_lr = 1e-3
        self.optimizer: Literal["adam", "sgd"] = "adam"
        self.normalize = True
        self.entropy = 0.0
        self.quota: dict[str, int] = {"steps": 1}

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        return RLModuleSpec(module_class=PolicyModule)


class PolicyGradient(Lockstep):
    """Lockstep sampling with a learner that receives transitions."""

    @classmethod
    def get_default_config(cls) -> PolicyGradientConfig:
        return PolicyGradientConfig(algo_class=cls)

    def learn(self, episodes: list[SingleAgentEpisode]) -> None:
        self.learner_group.update(batch=transitions(episodes))


class PolicyGradientLearner(TorchLearner):
    """Moves the critic towards targets, and the actor along (target − v(s)) · ∂ ln π(s, a)."""

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        module = self._module[module_id]
        for name, network, rate in (
            ("actor", module.actor, config.actor_lr),
            ("critic", module.critic, config.critic_lr),
        ):
            parameters = list(network.parameters())
            self.register_optimizer(
                module_id=module_id,
                optimizer_name=name,
                optimizer=OPTIMIZERS[config.optimizer](parameters, lr=rate),
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
        module = self.module[module_id].unwrapped()
        with torch.no_grad():
            following = module.compute_values({Columns.OBS: batch[Columns.NEXT_OBS]})
            targets = self.targets(batch, following * (1 - batch[Columns.TERMINATEDS].float()))
        values = module.compute_values(batch)
        advantages = (targets - values).detach()
        if config.normalize:
            advantages = self.centred(advantages)
            advantages = advantages / _running_rms(module.advantage_moments, advantages)
        policy = module.get_train_action_dist_cls().from_logits(fwd_out[Columns.ACTION_DIST_INPUTS])
        actor = -(advantages * policy.logp(batch[Columns.ACTIONS])).mean() - config.entropy * policy.entropy().mean()
        # ½(target − v)² with the target held has the gradient −(target − v)·∂v.
        return actor + 0.5 * (targets - values).square().mean()


def _running_rms(moments: Tensor, advantages: Tensor) -> Tensor:
    """Return the running root mean square of advantages.

    Args:
        moments: float32 [2], the weighted sums of mean squares and of weights; both are updated in place.
        advantages: the advantages of one more batch.
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
        channels: channels of the kernels over the batch; 0 reads it without (see `rl.networks.PolicyNetwork`).
        hidden: units of the first affine layer.
        options: the attributes of `PolicyGradientConfig`.
    """

    learner: ClassVar[type[PolicyGradientLearner]]

    def __init__(self, channels: int, hidden: int, **options: Any) -> None:
        self.options, self.widths = options, {"channels": channels, "hidden": hidden}

    def config(self, copies: int) -> PolicyGradientConfig:
        config = PolicyGradientConfig()
        config.training(learner_class=self.learner)
        for name, value in self.options.items():
            setattr(config, name, value)
        return config
