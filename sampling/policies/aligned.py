"""Chooses the action whose training gradient agrees best with the gradient on a labelled sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ranking.bounds import AtLeast, NonNegative, checked
from ranking.errors import BadInput
from sampling.drawing import draw
from sampling.policies.action import Action
from sampling.policies.policy import SamplingPolicy
from sampling.relevant_pairs import RelevantPairs
from sampling.retrieval.function import RetrievalFunction
from sampling.selection.uniform import Uniform

if TYPE_CHECKING:
    from ranking.training import Batch, RankerTraining

CHUNK = 50
"""Queries of the sample that are read together."""


class Aligned(SamplingPolicy):
    """At each decision the action whose gradient has the largest dot product with that of a labelled sample.

    For a small step the loss on the sample falls by the step's length times that dot product, so the action with the
    largest one teaches most of what the sample wants. No training is spent on a search. The sample is of dev queries
    that choose; results are measured on test queries. At the first batches the dot product says little about what an
    action is worth in the end (`python -m benchmarks.alignment` measures how much), so before `after` epochs `first`,
    which goes by scores, is taken.

    The idea is that of Dynamic Gradient Alignment (arXiv 2410.02498) for domain weights; R&B (2505.00358), Aioli
    (2411.05735) and, for retrievers, Inf-DDS (2601.21759) are related. It differs in that actions are ways of choosing
    negatives, one is taken at a time, and the plain gradient is compared, not one scaled as Adam scales it.

    Args:
        actions: the actions to choose from, as `pyrite fork` writes them: in_batch, bm25:1-4, bm25@simans,
            bm25@dynamic:64, bm25*.5; without a selector, uniform draws. None takes the whole list of each function, and
            of each but the first also ranks 1 to 4 and 1 to 20, `simans` and `dynamic:64`.
        each: if it is a number, the first function supplies all queries, and the action's function supplies `each`
            negatives to each query.
        every: batches between two decisions; None for an epoch.
        after: epochs before the first decision.
        first: the action before it; None for `simans` over the last function.
        queries: number of queries in the sample.
        depth: documents per query of the sample: its relevant ones, and the first others of the candidate list.
        batches: training batches whose gradients are averaged, per action.

    Raises:
        BadInput: if an action names no function of the run, or the dev queries have no candidate lists.
    """

    @checked
    def __init__(
        self,
        actions: Sequence[str] | None = None,
        each: Annotated[int, AtLeast(1)] | None = None,
        every: Annotated[int, AtLeast(1)] | None = None,
        after: Annotated[float, NonNegative] = 1.0,
        first: str | None = None,
        queries: Annotated[int, AtLeast(1)] = 300,
        depth: Annotated[int, AtLeast(2)] = 20,
        batches: Annotated[int, AtLeast(1)] = 1,
    ) -> None:
        self.actions = None if actions is None else [Action.parse(text) for text in dict.fromkeys(actions)]
        self.first = None if first is None else Action.parse(first)
        self.each, self.every, self.after = each, every, after
        self.queries, self.depth, self.batches = queries, depth, batches
        self.action: Action | None = None
        self.decisions: list[dict[str, Any]] = []

    def set_functions(self, functions: list[str]) -> None:
        super().set_functions(functions)
        forms = ("{}", "{}:1-4", "{}:1-20", "{}@simans", "{}@dynamic:64")
        if self.actions is None:
            texts = [functions[0], *(form.format(name) for name in functions[1:] for form in forms)]
            self.actions = [Action.parse(text) for text in texts]
        self.first = self.first or Action.parse(f"{functions[-1]}@simans")
        for action in (*self.actions, self.first):
            action.check(functions)

    def start_run(self, functions: dict[str, RetrievalFunction], training: RankerTraining) -> None:
        self.by_name = functions
        candidates = training.validation.candidates
        if training.ranker.sharding:
            raise BadInput("gradients of a sharded ranker can't be compared", "policy=aligned", "choose another policy")
        if candidates.documents is None:
            raise BadInput("the dev queries have no candidate lists", "validation.origin", "choose bm25 or random")
        relevant = training.encoded.judgements.are_relevant(candidates.queries, candidates.documents)
        rows = np.flatnonzero(relevant.any(1) & ~relevant.all(1))
        # Spread over the dev queries, the same for every run.
        chosen = rows[np.arange(0, len(rows), max(len(rows) / self.queries, 1)).astype(int)]
        documents, relevant = candidates.documents[chosen], relevant[chosen]
        # Relevant documents first, but at most half of the places, then the others in their order.
        late = np.where(np.cumsum(relevant, 1) <= self.depth // 2, 0, 2)
        order = np.argsort(np.where(relevant, late, 1), axis=1, kind="stable")[:, : self.depth]
        documents, relevant = (np.take_along_axis(part, order, 1) for part in (documents, relevant))
        self.sample = candidates.queries[chosen], documents, relevant
        self.relevant = RelevantPairs(training.encoded)

    def choose(self, batch: Batch, training: RankerTraining, rng: np.random.Generator) -> NDArray[np.int64]:
        return self.assign(batch, 1, training, rng)[:, 0]

    def assign(self, batch: Batch, count: int, training: RankerTraining, rng: np.random.Generator) -> NDArray[np.int64]:
        assert self.actions is not None
        assert self.first is not None
        every = self.every or training.steps_per_epoch
        begin = round(self.after * training.steps_per_epoch)
        if training.step < begin:
            self.action = self.first
        elif (training.step - begin) % every == 0 or self.action is None:
            values = self.alignments(self.actions, count, training, rng)
            best = max(values, key=values.__getitem__)
            self.action = next(action for action in self.actions if str(action) == best)
            self.decisions.append({"step": training.step, "action": best, **values})
        assert self.action is not None
        taken = Always(self.action, self.each, self.functions)
        self.window, self.selectors = taken.window, taken.selectors
        return taken.assign(batch, count, training, rng)

    def alignments(
        self, actions: Sequence[Action], count: int, training: RankerTraining, rng: np.random.Generator
    ) -> dict[str, float]:
        """Return the dot product of each action's training gradient with that of the sample, by the action's name.

        Args:
            actions: the actions.
            count: negatives per query.
            training: the training of the ranker, which does not change.
            rng: draws the training batches, which are the same for all actions, and their negatives.
        """
        wanted = self._sample_gradient(training)
        size = min(training.batch_size, len(training.examples))
        rows = [rng.choice(len(training.examples), size, replace=False) for _ in range(self.batches)]
        seed = int(rng.integers(2**63))
        values = {}
        for action in actions:
            draws, value = np.random.default_rng(seed), 0.0
            for batch in map(training.examples.take, rows):
                policy = Always(action, self.each, self.functions)
                drawn = draw(batch, training, policy, self.by_name, {}, count, self.relevant, draws)
                loss = training.loss_of(batch, drawn.negatives, drawn.source_scores)
                value += dot(wanted, training.gradient(loss))
            values[str(action)] = value / self.batches
        return values

    def _sample_gradient(self, training: RankerTraining) -> list[Tensor | None]:
        """Return the gradient of −log of the share of the relevant documents in a softmax over each query's list."""
        total: list[Tensor | None] = [None] * len(training.trained_weights)
        queries, documents, relevant = self.sample
        training.documents_read += len(np.unique(documents[documents >= 0]))
        for rows in _chunks(len(queries)):
            generator = torch.Generator().manual_seed(0)
            scores = training.scores(queries[rows], documents[rows], generator).float()
            hidden = scores.new_tensor(documents[rows] < 0, dtype=torch.bool)
            other = scores.new_tensor(~relevant[rows], dtype=torch.bool)
            scores = scores.masked_fill(hidden, -torch.inf)
            losses = torch.logsumexp(scores, 1) - torch.logsumexp(scores.masked_fill(other, -torch.inf), 1)
            total = [_add(one, two) for one, two in zip(total, training.gradient(losses.sum()), strict=True)]
        return [None if one is None else one / len(queries) for one in total]

    def state_dict(self) -> dict[str, Any]:
        return {"action": None if self.action is None else str(self.action), "decisions": self.decisions}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.action = None if state["action"] is None else Action.parse(state["action"])
        self.decisions = list(state["decisions"])


class Always(SamplingPolicy):
    """One action for all batches."""

    def __init__(self, action: Action, each: int | None, functions: list[str]) -> None:
        self.action, self.each, self.functions, self.window = action, each, functions, action.window
        self.selectors = {**dict.fromkeys(functions, Uniform()), **action.selectors()}

    def choose(self, batch: Batch, training: RankerTraining, rng: np.random.Generator) -> NDArray[np.int64]:
        return self.assign(batch, 1, training, rng)[:, 0]

    def assign(self, batch: Batch, count: int, training: RankerTraining, rng: np.random.Generator) -> NDArray[np.int64]:
        return self.action.assign(self.functions, self.functions, len(batch), count, self.each, rng)


def _chunks(count: int) -> Iterator[slice]:
    return (slice(*ends) for ends in pairwise([*range(0, count, CHUNK), count]))


def _add(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    dense = None if other is None else other.to_dense() if other.is_sparse else other
    return dense if one is None else one if dense is None else one + dense


def dot(dense: Sequence[Tensor | None], gradient: Sequence[Tensor | None]) -> float:
    """Return the dot product of two gradients; the first is dense, the second may be by rows."""
    total = 0.0
    for one, other in zip(dense, gradient, strict=True):
        if one is None or other is None:
            continue
        if other.is_sparse:  # a row that occurs twice counts twice, so rows need not be added up first
            one, other = one[other._indices()[0]], other._values()
        total += float((one * other).sum(dtype=torch.float64))
    return total
