"""Options of the one-step actor-critic."""

from __future__ import annotations

from rl.algorithms.actor_critic.algorithm import ActorCriticAlgorithm
from rl.algorithms.actor_critic.learner import ActorCriticLearner
from rl.algorithms.policy_gradient import PolicyGradientConfig


class ActorCriticConfig(PolicyGradientConfig):
    """See `PolicyGradientConfig`; `quota` is in steps."""

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class=algo_class or ActorCriticAlgorithm)

    def get_default_learner_class(self) -> type[ActorCriticLearner]:
        return ActorCriticLearner
