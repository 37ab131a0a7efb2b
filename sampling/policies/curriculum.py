"""Chooses retrieval functions by a bandit that is paid by what the ranker learns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ranking.errors import BadInput
from sampling.policies.policy import SamplingPolicy
from sampling.retrieval.function import RetrievalFunction

if TYPE_CHECKING:
    from ranking.training import Batch, RankerTraining, UpdateResult


class Curriculum(SamplingPolicy):
    """Exp3.S over the functions, paid by prediction gain (Graves et al. 2017, sections 2 and 3).

    A batch's gain is its loss before the update less its loss after it, L(x, θ) − L(x, θ′), which takes one more
    forward pass. Gains are rescaled to [−1, 1] by the percentiles of those before them, of which a uniform sample is
    kept. Each weight is shared in part with the other functions (the S), so that a function which was poor for long
    can still come back.

    Differs from the paper: a gain is not divided by the time that a batch took, since batches of all functions take
    the same; and `eta` is larger by default, since a ranker is trained for hundreds or thousands of batches, the
    paper's networks for far more.

    Args:
        eta: η, how far a reward of 1 moves a function's weight; the paper has 0.001. √(2·ln A/(A·T)) suits A functions
            and T batches (Auer et al. 2002): 0.04 for 2 and 500.
        beta: β, added to the reward of every function, 0 for those that were not chosen, before each is divided by
            the function's probability: it favours what is rarely chosen.
        epsilon: ε, share of the draws that are uniform.
        history: gains kept for the percentiles.

    Raises:
        BadInput: where an option is out of its range.
    """

    percentiles = (20, 80)

    def __init__(self, eta: float = 0.03, beta: float = 0.0, epsilon: float = 0.05, history: int = 1000) -> None:
        if not 0 < eta < np.inf:
            raise BadInput(f"η is {eta}", "policy.eta", "choose a number above 0")
        if not 0 <= beta < np.inf:
            raise BadInput(f"β is {beta}", "policy.beta", "choose a number from 0 up")
        if not 0 < epsilon <= 1:
            raise BadInput(f"ε is {epsilon}", "policy.epsilon", "choose a share above 0, up to 1")
        if history < 1:
            raise BadInput(f"history is {history}", "policy.history", "choose a whole number from 1 up")
        self.eta, self.beta, self.epsilon, self.history = eta, beta, epsilon, history

    def start_run(self, functions: dict[str, RetrievalFunction], training: RankerTraining) -> None:
        self.weights = np.zeros(len(functions))
        self.chosen = 0
        self.updates = 0
        self.gains = np.zeros(0)

    def probabilities(self) -> NDArray[np.float64]:
        """π: a softmax of the weights, mixed with ε of a uniform draw. Shape [functions]."""
        shares = np.exp(self.weights - self.weights.max())
        return (1 - self.epsilon) * shares / shares.sum() + self.epsilon / len(shares)

    def choose(self, batch: Batch, training: RankerTraining, rng: np.random.Generator) -> NDArray[np.int64]:
        edges = np.cumsum(self.probabilities())[:-1]
        self.chosen = int(np.searchsorted(edges, rng.random(), side="right"))
        return np.full(len(batch), self.chosen)

    def observe(
        self,
        batch: Batch,
        negatives: NDArray[np.int32],
        step: UpdateResult,
        training: RankerTraining,
        rng: np.random.Generator,
    ) -> None:
        gain = step.loss - training.loss_now(batch, negatives)
        if np.isfinite(gain):  # otherwise the training has diverged and ends
            self.learn(self.rescaled(gain))
            self._keep(gain, rng)

    def rescaled(self, gain: float) -> float:
        """The reward that a gain makes, −1 to 1; 0 for the first and where the percentiles are one."""
        if not len(self.gains):
            return 0.0
        low, high = np.percentile(self.gains, self.percentiles)
        if low == high:
            return float(np.sign(gain - low))
        return float(np.clip(2 * (gain - low) / (high - low) - 1, -1, 1))

    def learn(self, reward: float) -> None:
        """Exp3.S's update after the chosen function was paid.

        Args:
            reward: −1 to 1.
        """
        self.updates += 1
        paid = np.where(np.arange(len(self.weights)) == self.chosen, reward, 0) + self.beta
        moved = self.weights + self.eta * paid / self.probabilities()
        # The largest is taken out: it changes no probability, and nothing overflows.
        grown = np.exp(moved - moved.max())
        shared = 1 / (self.updates + 1)
        others = (grown.sum() - grown) / (len(grown) - 1)
        self.weights = np.log((1 - shared) * grown + shared * others)

    def _keep(self, gain: float, rng: np.random.Generator) -> None:
        """Add to the sample, in which every gain so far is as probable as another (Vitter 1985, algorithm R)."""
        if len(self.gains) < self.history:
            self.gains = np.append(self.gains, gain)
        elif (place := int(rng.integers(self.updates))) < self.history:
            self.gains[place] = gain

    def state_dict(self) -> dict[str, Any]:
        return {"weights": self.weights, "chosen": self.chosen, "updates": self.updates, "gains": self.gains}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.weights, self.gains = np.array(state["weights"]), np.array(state["gains"])
        self.chosen, self.updates = state["chosen"], state["updates"]
