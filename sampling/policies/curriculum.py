"""Chooses retrieval functions by a bandit that is rewarded by what the ranker learns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.bounds import Between, NonNegative, Positive, checked
from pyrite.sampling.policies.policy import SamplingPolicy
from pyrite.sampling.retrieval.function import RetrievalFunction

if TYPE_CHECKING:
    from pyrite.ranking.training import Batch, RankerTraining, UpdateResult


class Curriculum(SamplingPolicy):
    """Exp3.S over the functions, rewarded by prediction gain (Graves et al. 2017, sections 2 and 3).

    A batch's gain is its loss before the update minus its loss after it, L(x, θ) − L(x, θ′), which costs one more
    forward pass. Both are with the same dropout masks, so that only the step changes the loss. Gains are rescaled to
    [−1, 1] by percentiles of a uniform sample of the gains so far. Part of each weight is shared with the other
    functions (the S), so that a function that was poor for long can recover.

    Differs from the paper: a gain is not divided by the time that a batch took, since batches of all functions take the
    same time; and `eta` is larger by default, since a ranker is trained for hundreds or thousands of batches and the
    paper's networks for far more.

    Args:
        eta: η, how far a reward of 1 moves a function's weight; the paper has 0.001. √(2·ln A/(A·T)) suits A functions
            and T batches (Auer et al. 2002): 0.04 for 2 and 500.
        beta: β, added to the reward of every function (0 for functions that were not chosen) before it is divided by
            the function's probability. It favours rarely chosen functions.
        epsilon: ε, the share of the draws that are uniform.
        history: number of gains kept for the percentiles.
    """

    percentiles = (20, 80)

    @checked
    def __init__(
        self,
        *functions: RetrievalFunction,
        eta: Annotated[float, Positive] = 0.03,
        beta: Annotated[float, NonNegative] = 0.0,
        epsilon: Annotated[float, Between(0, 1, exclude="low")] = 0.05,
        history: Annotated[int, Positive] = 1000,
    ) -> None:
        super().__init__(*functions)
        self.eta, self.beta, self.epsilon, self.history = eta, beta, epsilon, history

    def start_run(self, functions: dict[str, RetrievalFunction], training: RankerTraining) -> None:
        self.weights = np.zeros(len(functions))
        self.chosen = 0
        self.updates = 0
        self.gains = np.zeros(0)

    def probabilities(self) -> NDArray[np.float64]:
        """Return π: a softmax of the weights, mixed with ε of a uniform draw. Shape [functions]."""
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
        gain = step.loss - training.loss_now()
        if np.isfinite(gain):  # otherwise the training has diverged, and it ends
            self.learn(self.rescaled(gain))
            self._keep(gain, rng)

    def rescaled(self, gain: float) -> float:
        """Return the reward for a gain, −1 to 1; 0 for the first gain, or if the percentiles are equal."""
        if not len(self.gains):
            return 0.0
        low, high = np.percentile(self.gains, self.percentiles)
        if low == high:
            return float(np.sign(gain - low))
        return float(np.clip(2 * (gain - low) / (high - low) - 1, -1, 1))

    def learn(self, reward: float) -> None:
        """Update the weights by Exp3.S after the chosen function was rewarded.

        Args:
            reward: −1 to 1.
        """
        self.updates += 1
        rewards = np.where(np.arange(len(self.weights)) == self.chosen, reward, 0) + self.beta
        moved = self.weights + self.eta * rewards / self.probabilities()
        # Subtracting the largest changes no probability, and prevents overflow.
        grown = np.exp(moved - moved.max())
        shared = 1 / (self.updates + 1)
        others = (grown.sum() - grown) / (len(grown) - 1)
        self.weights = np.log((1 - shared) * grown + shared * others)

    def _keep(self, gain: float, rng: np.random.Generator) -> None:
        """Add to the sample, in which every gain so far is equally probable (Vitter 1985, algorithm R)."""
        if len(self.gains) < self.history:
            self.gains = np.append(self.gains, gain)
        elif (index := int(rng.integers(self.updates))) < self.history:
            self.gains[index] = gain

    def state_dict(self) -> dict[str, Any]:
        return {"weights": self.weights, "chosen": self.chosen, "updates": self.updates, "gains": self.gains}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.weights, self.gains = np.array(state["weights"]), np.array(state["gains"])
        self.chosen, self.updates = state["chosen"], state["updates"]
