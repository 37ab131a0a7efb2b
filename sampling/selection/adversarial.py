"""Picks negatives by a generator that learns to deceive the ranker (IRGAN)."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from pyrite.ranking.bounds import Positive, checked
from pyrite.ranking.optimization import gradient_norm
from pyrite.ranking.rankers.ranker import Ranker
from pyrite.ranking.scoring import score_candidates
from pyrite.sampling.retrieval.function import CandidateBatch, RetrievalFunction
from pyrite.sampling.selection.selector import Selector, pick

if TYPE_CHECKING:
    from pyrite.ranking.training import Batch, RankerTraining, UpdateResult


@dataclass(frozen=True)
class GeneratorDraw(CandidateBatch):
    """The documents that the generator drew, and the candidates that it drew from.

    Args:
        candidates: int32 [b, m], −1 if the function had fewer.
    """

    candidates: NDArray[np.int32]


class Adversarial(Selector):
    """IRGAN's generator, with the ranker as its discriminator (Wang et al. 2017, section 2).

    The generator is a second model of the ranker's form, g_φ: a copy of the ranker at the start, with separate weights
    from then on. It draws the negatives of a query from the candidates, one after the other without replacement, by
    p_φ(d|q) = softmax of g_φ(q, d)/τ over the remaining ones. After the ranker's update f_θ rewards each draw, and one
    step of Adam follows REINFORCE,

        ∇_φ J ≈ mean over the draws of ∇_φ log p_φ(d|q) · (r(d) − E_{d′~p_φ}[r(d′)]),  r(d) = log(1 + e^{f_θ(d, q)})

    which is the paper's equation 5 with the baseline that it names there. Cohen et al. 2019, section 5.2, use it so:
    the generator supplies negatives and never ranks.

    Differs from the paper: both models start together and untrained, and each takes one step per batch; the paper
    pre-trains them and alternates rounds of several steps.

    Args:
        candidates: documents per query that are drawn uniformly from the list for the generator to choose from.
        temperature: τ, above 0; the lower, the more often the generator draws what it scores high.
        lr: learning rate of the generator's Adam.
        reward: `softplus`, the paper's log(1 + e^f), or `sigmoid`, 2·(σ(f) − ½), which is bounded.
    """

    needs_training = True

    @checked
    def __init__(
        self,
        candidates: Annotated[int, Positive] = 8,
        temperature: Annotated[float, Positive] = 1.0,
        lr: Annotated[float, Positive] = 0.001,
        reward: Literal["softplus", "sigmoid"] = "softplus",
    ) -> None:
        self.candidates, self.temperature, self.lr, self.reward = candidates, temperature, lr, reward

    def start_run(self, functions: dict[str, RetrievalFunction], training: RankerTraining) -> None:
        self.generator: Ranker = copy.deepcopy(training.ranker)
        # One pass over all weights, as for the ranker.
        self.optimizer = torch.optim.Adam(self.generator.parameters(), self.lr, fused=True)

    def select(
        self,
        batch: Batch,
        function: RetrievalFunction,
        count: int,
        training: RankerTraining,
        rng: np.random.Generator,
    ) -> GeneratorDraw:
        candidates = function.sample(batch, max(self.candidates, count), rng)
        logits = (
            score_candidates(self.generator, training.encoded, batch.queries, candidates.documents) / self.temperature
        )
        # The largest sums of logits and Gumbel noise are draws without replacement (Gumbel-top-k).
        drawn = pick(candidates, logits + rng.gumbel(size=logits.shape), count)
        return GeneratorDraw(drawn.documents, drawn.scores, candidates.documents)

    def observe(
        self,
        batch: Batch,
        selected: CandidateBatch,
        step: UpdateResult,
        training: RankerTraining,
        rng: np.random.Generator,
    ) -> None:
        if not isinstance(selected, GeneratorDraw):
            raise TypeError(f"{type(selected).__name__} is not what select returned")
        self.optimizer.zero_grad(set_to_none=True)
        self.surrogate(batch, selected, training).backward()
        # If the ranker or the generator has diverged, the generator's weights stay.
        if math.isfinite(float(gradient_norm(self.generator.parameters()))):
            self.optimizer.step()

    def surrogate(self, batch: Batch, drawn: GeneratorDraw, training: RankerTraining) -> Tensor:
        """Return a scalar whose gradient is −1 times the REINFORCE estimate of ∇_φ J for the draws of a batch."""
        documents = training.encoded.documents.take(np.maximum(drawn.candidates, 0).ravel())
        logits = self.generator(training.encoded.queries.take(batch.queries), documents) / self.temperature
        rewards = self._rewards(torch.from_numpy(training.score(batch.queries, drawn.candidates)).to(logits))
        left = torch.from_numpy(drawn.candidates >= 0).to(logits.device)
        places = torch.from_numpy((drawn.candidates[:, None] == drawn.documents[:, :, None]).argmax(-1))
        gains = []
        for draw, place in enumerate(places.to(logits.device).T):
            rows = torch.from_numpy(np.flatnonzero(drawn.documents[:, draw] >= 0)).to(logits.device)
            log_shares = torch.log_softmax(logits[rows].masked_fill(~left[rows], -torch.inf), 1)
            expected = (log_shares.detach().exp() * rewards[rows]).sum(1)
            chosen = place[rows, None]
            gains.append(log_shares.gather(1, chosen)[:, 0] * (rewards[rows].gather(1, chosen)[:, 0] - expected))
            left = left.scatter(1, place[:, None], False)
        together = torch.cat(gains)
        return -together.sum() / max(len(together), 1)

    def _rewards(self, scores: Tensor) -> Tensor:
        """Return r of the ranker's scores; also finite if there is no document (−inf)."""
        return F.softplus(scores) if self.reward == "softplus" else 2 * (torch.sigmoid(scores) - 0.5)

    def state_dict(self) -> dict[str, Any]:
        return {"generator": dict(self.generator.state_dict()), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.generator.load_state_dict(state["generator"])
        self.optimizer.load_state_dict(state["optimizer"])
