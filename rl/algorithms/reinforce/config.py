"""Options of REINFORCE."""

from __future__ import annotations

from rl.algorithms.policy_gradient import PolicyGradientConfig
from rl.algorithms.reinforce.algorithm import ReinforceAlgorithm
from rl.algorithms.reinforce.learner import ReinforceLearner


class ReinforceConfig(PolicyGradientConfig):
    """See `PolicyGradientConfig`; `quota` is in episodes."""

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class=algo_class or ReinforceAlgorithm)
        self.quota = {"episodes": 1}

    def get_default_learner_class(self) -> type[ReinforceLearner]:
        return ReinforceLearner
