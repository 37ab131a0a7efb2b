"""Learns by one-step actor-critic: Cohen et al. 2019's agent, updated as steps arrive."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from ray.rllib.core.columns import Columns
from torch import Tensor

from pyrite.ranking.bounds import NonNegative, Positive, checked
from pyrite.rl.agents.policy_gradient import PolicyGradientAgent, PolicyGradientLearner


class ActorCriticLearner(PolicyGradientLearner):
    """Equations 9–11 of Cohen et al. 2019, averaged over the rows of a batch.

    δ = r + γ·v(s') − v(s), where v(s') is 0 if the episode terminated, but not if it was cut off; the critic moves by
    α_v·δ·∂v(s), the actor by α_θ·δ·∂ ln π(s, a).
    """

    def targets(self, batch: dict[str, Any], next_values: Tensor) -> Tensor:
        return batch[Columns.REWARDS] + self.config.gamma * next_values


class ActorCritic(PolicyGradientAgent):
    """One-step actor-critic, updated after every step of all copies (Cohen et al. 2019, algorithm 1, equations 9–11).

    Args:
        actor_lr: α_θ, learning rate of the actor.
        critic_lr: α_v, learning rate of the critic.
        optimizer: `adam`, or `sgd` for the equations as they are printed.
        normalize: whether δ is divided by its running root mean square for the actor, so that `entropy` has the same
            weight for rewards of any size. False leaves equation 11 as it is printed.
        entropy: weight of the policy's entropy. At 0 the noise of rewards alone makes the policy one-sided in states
            where actions do not matter; at 0.03 it stays near uniform there (`benchmarks/agents.py`).
        fragment: decisions of each copy between two updates.
        channels: channels of the kernels over the batch; 0 reads it without (see `pyrite.rl.networks.PolicyNetwork`).
        hidden: units of the first affine layer.
        learners: number of learners that are Ray actors; 0 learns in the process of the learning, with the same result
            as 1. Several share each update and average their gradients, which gives another agent.
    """

    learner = ActorCriticLearner

    @checked
    def __init__(
        self,
        actor_lr: Annotated[float, Positive] = 1e-3,
        critic_lr: Annotated[float, Positive] = 1e-3,
        optimizer: Literal["adam", "sgd"] = "adam",
        normalize: bool = True,
        entropy: Annotated[float, NonNegative] = 0.03,
        fragment: Annotated[int, Positive] = 1,
        channels: Annotated[int, NonNegative] = 16,
        hidden: Annotated[int, Positive] = 500,
        learners: Annotated[int, NonNegative] = 0,
    ) -> None:
        super().__init__(
            {"steps": fragment}, {"channels": channels, "hidden": hidden}, learners,
            actor_lr=actor_lr, critic_lr=critic_lr, optimizer=optimizer, normalize=normalize, entropy=entropy,
        )  # fmt: skip


class ActorCriticAsPrinted(ActorCritic, optimizer="sgd", normalize=False, entropy=0.0):
    """Equations 9–11 of Cohen et al. 2019 to the letter: plain steps along δ as it is, with no bonus for entropy.

    The paper's algorithm 1 runs one episode at a time: `copies=1`.
    """
