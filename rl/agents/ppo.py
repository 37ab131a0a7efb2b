"""Learns by proximal policy optimization: RLlib's loss and advantages."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any

import numpy as np
import tree
from numpy.typing import NDArray
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch

from pyrite.ranking.bounds import Fraction, NonNegative, Positive, checked
from pyrite.rl.agents.agent import Agent


class SeededPPOLearner(PPOTorchLearner):
    """RLlib's PPO learner, which shuffles minibatches with a generator that is passed in.

    RLlib's learner shuffles with NumPy's global generator.
    """

    def _create_iterator_if_necessary(
        self,
        *,
        training_data: Any,
        num_epochs: int = 1,
        minibatch_size: int | None = None,
        num_total_minibatches: int = 0,
        rng: np.random.Generator,
        **unused: Any,
    ) -> Iterator[MultiAgentBatch]:
        """Yield the minibatches of an update, of which all learners have the same number; `rng` draws the order of the
        steps.
        """
        # RLlib divides episodes among learners by their length.
        training_data.episodes = sorted(training_data.episodes, key=_place)
        (whole,) = super()._create_iterator_if_necessary(training_data=training_data)
        steps = whole.policy_batches[DEFAULT_MODULE_ID]
        minibatches = minibatch_rows(len(steps), num_epochs, minibatch_size or len(steps), rng)
        for rows in islice(minibatches, num_total_minibatches or None):
            part = SampleBatch(tree.map_structure(lambda column, rows=rows: column[rows], dict(steps)))
            yield MultiAgentBatch({DEFAULT_MODULE_ID: part}, len(whole))


def _place(episode: SingleAgentEpisode) -> tuple[int, int]:
    """Return the copy of a part of an episode, and the number of its first decision."""
    info = episode.get_infos(0)
    return info["copy"], info["decision"]


def minibatch_rows(steps: int, epochs: int, size: int, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Yield the rows of each minibatch, all of one size: the first pass in order, each later one shuffled.

    A minibatch may cross from one pass into the next. The last one is filled up from one more pass, as RLlib does it.
    """
    passes = [np.arange(steps), *(rng.permutation(steps) for _ in range(epochs))]
    rows = np.concatenate(passes)
    for start in range(0, epochs * steps, size):
        yield rows[start : start + size]


class PPO(Agent):
    """RLlib's PPO with the policy's network, clipped and without the KL term (Schulman et al. 2017, equation 7).

    The critic's squared error is not clipped: RLlib's `vf_clip_param` of 10 has no gradient if the critic's error is
    above √10, and returns in hundredths of average precision are that large.

    Args:
        lr: learning rate of actor and critic.
        fragment: decisions of each copy between two updates. An unfinished episode is cut there, and the critic's value
            replaces the rest of its return.
        episodes: whole episodes of each copy between two updates, instead of `fragment`; None uses `fragment`.
        epochs: passes over them per update.
        minibatch: decisions of all copies per gradient; at most those of an update.
        clip: how far the ratio of new to old probabilities may move from 1 and still count.
        lam: λ of the generalised advantage estimate.
        value_weight: weight of the critic's squared error.
        entropy: weight of the policy's entropy. Advantages are scaled to unit variance.
        channels: channels of the kernels over the batch; 0 reads it without (see `pyrite.rl.networks.PolicyNetwork`).
        hidden: units of the first affine layer.
        learners: number of learners that are Ray actors; 0 learns in the process of the learning, with the same result
            as 1. Several share each update and average their gradients, which gives another agent.
    """

    learner = SeededPPOLearner

    @checked
    def __init__(
        self,
        lr: Annotated[float, Positive] = 2e-3,
        fragment: Annotated[int, Positive] = 128,
        episodes: Annotated[int, Positive] | None = None,
        epochs: Annotated[int, Positive] = 4,
        minibatch: Annotated[int, Positive] = 256,
        clip: Annotated[float, NonNegative] = 0.2,
        lam: Annotated[float, Fraction] = 0.95,
        value_weight: Annotated[float, NonNegative] = 0.5,
        entropy: Annotated[float, NonNegative] = 0.02,
        channels: Annotated[int, NonNegative] = 16,
        hidden: Annotated[int, Positive] = 500,
        learners: Annotated[int, NonNegative] = 0,
    ) -> None:
        self.learners = learners
        self.quota = {"steps": fragment} if episodes is None else {"episodes": episodes}
        self.epochs, self.minibatch, self.widths = epochs, minibatch, {"channels": channels, "hidden": hidden}
        self.options: dict[str, Any] = {
            "lr": lr, "clip_param": clip, "lambda_": lam, "vf_loss_coeff": value_weight, "entropy_coeff": entropy,
        }  # fmt: skip

    def config(self) -> PPOConfig:
        return PPOConfig().training(vf_clip_param=math.inf, use_kl_loss=False, **self.options)

    def update_arguments(self, episodes: list[SingleAgentEpisode], number: int, config: AlgorithmConfig) -> Any:
        size, learners = min(self.minibatch, sum(map(len, episodes))), max(1, self.learners)
        # Seeded by the number of the update, so that an update after a restart shuffles as the first attempt did.
        return {
            "episodes": episodes,
            "num_epochs": self.epochs,
            "minibatch_size": math.ceil(size / learners),
            "rng": np.random.default_rng([config.env_config["seed"], number]),
        }


class PPOReturns(PPO, lr=5e-3, episodes=5, epochs=10, minibatch=64, lam=1.0, entropy=0.01):
    """PPO on the returns of whole episodes, for few decisions per episode (`decision_every=epoch`).

    Returns are whole, since a critic that has seen few episodes can't estimate the rest of one, and the few decisions
    are used often.
    """
