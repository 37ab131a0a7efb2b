"""Chooses the action whose training gradient agrees best with the gradient on a labelled sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pyrite.ranking.bounds import AtLeast, NonNegative, checked
from pyrite.ranking.errors import BadInput, refuse
from pyrite.sampling.drawing import NegativeSources
from pyrite.sampling.policies.action import Action
from pyrite.sampling.policies.policy import ByNegative
from pyrite.sampling.relevant_pairs import RelevantPairs
from pyrite.sampling.retrieval.function import RetrievalFunction
from pyrite.sampling.selection.uniform import Uniform

if TYPE_CHECKING:
    from pyrite.ranking.training import Batch, RankerTraining

PARTS = 6
"""Parts of the sample, each with a gradient of its own, by which leads are told from noise."""


class Aligned(ByNegative):
    """At each decision the action whose gradient has the largest dot product with that of a labelled sample.

    For a small step the loss on the sample falls by the step's length times that dot product, so the action with the
    largest one teaches most of what the sample wants. No training is spent on a search. The sample is of dev queries
    that choose; results are measured on test queries. On many collections the dot products of all actions are equal but
    for noise, and what is worth most in the end (how many negatives a query gets, for example) does not show in one
    gradient. So the best action is taken only if its lead over `otherwise` is clear, by the differences between parts
    of the sample. At the first batches the dot product predicts less than later (docs/experiments/policies.md has how
    much), so before `after` epochs `first`, which goes by scores, is taken.

    The idea is that of Dynamic Gradient Alignment (arXiv 2410.02498) for domain weights; R&B (2505.00358), Aioli
    (2411.05735) and, for retrievers, Inf-DDS (2601.21759) are related. It differs in that actions are ways of choosing
    negatives, one is taken at a time, and the plain gradient is compared, not one scaled as Adam scales it.

    Args:
        actions: the actions to choose from (see `pyrite.sampling.policies.action.Action`): in_batch, bm25:1-4,
            bm25@simans, bm25@dynamic:64, bm25*.5, bm25*4; without a selector, uniform draws. None takes the whole list
            of each function, and of each but the first also ranks 1 to 4 and 1 to 20, `simans` and `dynamic:64`, and
            with `each` four times as many negatives, if half of a query's remain for the first function.
        each: if it is a number, the first function supplies all queries, and the action's function supplies `each`
            negatives to each query, or a multiple of it. Of `sampling.negatives`, the largest multiple is kept
            for it whatever the action.
        every: batches between two decisions; None for an epoch.
        after: epochs before the first decision.
        first: the action before it; None for `simans` over the last function.
        otherwise: the action when no other has a clear lead over it; None for four times `each` negatives of the last
            function, and without `each` for `first`.
        queries: number of queries in the sample.
        depth: documents per query of the sample: its relevant ones, and the first others of the candidate list.
        batches: training batches whose gradients are averaged, per action.
        evidence: a clear lead over `otherwise`, in standard errors.

    Raises:
        BadInput: if an action names no function of the run, or the dev queries have no candidate lists.
    """

    multiple = 4

    @checked
    def __init__(
        self,
        *functions: RetrievalFunction,
        actions: Sequence[str] | None = None,
        each: Annotated[int, AtLeast(1)] | None = None,
        every: Annotated[int, AtLeast(1)] | None = None,
        after: Annotated[float, NonNegative] = 1.0,
        first: str | None = None,
        otherwise: str | None = None,
        queries: Annotated[int, AtLeast(1)] = 300,
        depth: Annotated[int, AtLeast(2)] = 20,
        batches: Annotated[int, AtLeast(1)] = 1,
        evidence: Annotated[float, NonNegative] = 3.0,
    ) -> None:
        super().__init__(*functions)
        self.actions = None if actions is None else [Action.parse(text) for text in dict.fromkeys(actions)]
        self.first = None if first is None else Action.parse(first)
        self.otherwise = None if otherwise is None else Action.parse(otherwise)
        self.each, self.every, self.after = each, every, after
        self.queries, self.depth, self.batches, self.evidence = queries, depth, batches, evidence
        self.action: Action | None = None
        self.optional: list[Action] = []
        self.taken: list[dict[str, Any]] = []

    def set_functions(self, functions: list[str]) -> None:
        super().set_functions(functions)
        forms = ("{}", "{}:1-4", "{}:1-20", "{}@simans", "{}@dynamic:64")
        given = {*(self.actions or ()), self.first, self.otherwise}
        several = [Action(name, share=float(self.multiple)) for name in functions[1:]] if self.each else []
        if self.actions is None:
            texts = [functions[0], *(form.format(name) for name in functions[1:] for form in forms)]
            self.actions = [*map(Action.parse, texts), *several]
        self.first = self.first or Action(functions[-1], selector="simans")
        self.otherwise = self.otherwise or (several[-1] if several else self.first)
        self.actions = list(dict.fromkeys([*self.actions, self.first, self.otherwise]))
        self.optional = [action for action in several if action not in given]
        for action in self.actions:
            action.check(functions)

    def start_run(self, functions: dict[str, RetrievalFunction], training: RankerTraining) -> None:
        self.by_name = functions
        candidates = training.validation.candidates
        if candidates.documents is None:
            raise BadInput("the dev queries have no candidate lists", "validation.origin", "choose bm25 or random")
        relevant = training.encoded.judgements.are_relevant(candidates.queries, candidates.documents)
        rows = np.flatnonzero(relevant.any(1) & ~relevant.all(1))
        what = "no dev query has both a relevant and another document among its candidates"
        refuse(not len(rows), what, "validation.origin", "choose bm25 or random, or more dev queries")
        # Spread over the dev queries, the same for every run.
        chosen = rows[np.arange(0, len(rows), max(len(rows) / self.queries, 1)).astype(int)]
        documents, relevant = candidates.documents[chosen], relevant[chosen]
        # Relevant documents first, but at most half of the places, then the others in their order.
        late = np.where(np.cumsum(relevant, 1) <= self.depth // 2, 0, 2)
        order = np.argsort(np.where(relevant, late, 1), axis=1, kind="stable")[:, : self.depth]
        documents, relevant = (np.take_along_axis(part, order, 1) for part in (documents, relevant))
        self.sample = candidates.queries[chosen], documents, relevant
        self.relevant = RelevantPairs(training.encoded)

    def assign(self, batch: Batch, count: int, training: RankerTraining, rng: np.random.Generator) -> NDArray[np.int64]:
        if self.optional and count < 2 * self.multiple * (self.each or 1) * (len(self.functions) - 1):
            self._leave_out()
        assert self.actions is not None
        assert self.first is not None
        every = self.every or training.steps_per_epoch
        begin = round(self.after * training.steps_per_epoch)
        if training.step < begin:
            self.action = self.first
        elif (training.step - begin) % every == 0 or self.action is None:
            values = self.alignments(self.actions, count, training, rng)
            self.action = self.best(values)
            means = {name: float(parts.mean()) for name, parts in values.items()}
            self.taken.append({"step": training.step, "action": str(self.action), "values": means})
        assert self.action is not None
        taken = self._always(self.action)
        self.window, self.selectors = taken.window, taken.selectors
        return taken.assign(batch, count, training, rng)

    def _leave_out(self) -> None:
        """Forget default multiples that take more than half of a query's negatives."""
        self.actions = [action for action in self.actions or () if action not in self.optional]
        self.otherwise = self.first if self.otherwise in self.optional else self.otherwise
        self.optional = []

    def best(self, values: dict[str, NDArray[np.float64]]) -> Action:
        """Return the action with the largest mean if its lead over `otherwise` is clear, and else `otherwise`.

        Args:
            values: what `alignments` returns.
        """
        assert self.actions is not None
        assert self.otherwise is not None
        best = max(self.actions, key=lambda action: values[str(action)].mean())
        lead = values[str(best)] - values[str(self.otherwise)]
        error = lead.std(ddof=1) / len(lead) ** 0.5 if len(lead) > 1 else 0.0
        return best if lead.mean() > self.evidence * error else self.otherwise

    def alignments(
        self, actions: Sequence[Action], count: int, training: RankerTraining, rng: np.random.Generator
    ) -> dict[str, NDArray[np.float64]]:
        """Return the dot products of each action's training gradient with those of the sample's parts: [parts] by the
        action's name.

        Args:
            count: negatives per query.
            training: the training of the ranker, which does not change.
            rng: draws the training batches, which are the same for all actions, and their negatives.
        """
        wanted = self._sample_gradients(training)
        size = min(training.batch_size, len(training.examples))
        rows = [rng.choice(len(training.examples), size, replace=False) for _ in range(self.batches)]
        seed = int(rng.integers(2**63))
        values, sources = {}, NegativeSources(self.by_name, {}, count, self.relevant)
        for action in actions:
            draws, total = np.random.default_rng(seed), np.zeros(len(wanted))
            for batch in map(training.examples.take, rows):
                drawn = sources.draw(batch, training, self._always(action), draws)
                gradient = training.gradient(training.loss_of(batch, drawn.negatives, drawn.source_scores))
                total += [dot(part, gradient) for part in wanted]
            values[str(action)] = total / self.batches
        return values

    def _always(self, action: Action) -> Always:
        times = max([int(other.share) for other in (self.actions or [])] + [1])
        return Always(action, self.each, self.functions, times)

    def _sample_gradients(self, training: RankerTraining) -> list[list[Tensor | None]]:
        """Return each part's gradient of −log of the relevant documents' share in a softmax over a query's list."""
        queries, documents, relevant = self.sample
        training.count_documents(documents)
        gradients = []
        for rows in np.array_split(np.arange(len(queries)), min(PARTS, len(queries))):
            generator = torch.Generator().manual_seed(0)
            scores = training.scores(queries[rows], documents[rows], generator).float()
            hidden = scores.new_tensor(documents[rows] < 0, dtype=torch.bool)
            other = scores.new_tensor(~relevant[rows], dtype=torch.bool)
            scores = scores.masked_fill(hidden, -torch.inf)
            losses = torch.logsumexp(scores, 1) - torch.logsumexp(scores.masked_fill(other, -torch.inf), 1)
            gradient = training.gradient(losses.mean())
            gradients.append([one.to_dense() if one is not None and one.is_sparse else one for one in gradient])
        return gradients

    def state_dict(self) -> dict[str, Any]:
        return {"action": None if self.action is None else str(self.action), "taken": self.taken}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.action = None if state["action"] is None else Action.parse(state["action"])
        self.taken = list(state["taken"])


class Recommended(Aligned, each=1):
    """In-batch negatives and BM25's, as a labelled sample of dev queries asks.

    Evidence (docs/experiments/policies.md, static vectors, five collections, 8 and 20 seeds): of 18 methods it has the
    best mean on dev queries, with one learning rate and with one tuned for each. Over BM25's candidates of test queries
    it leads SimANS's rule by .007 (-.003 to .017, other collections) of AP@100, one of BM25's by .013 (-.011 to .036)
    and the batch alone by .018 (-.011 to .047); over random candidates it is behind the batch alone by .007. With a
    bi-encoder it leads SimANS's by .007 (-.035 to .049) on MedQuAD and is behind it by .003 (-.002 to .008) on QUEST.
    """


class Always(ByNegative):
    """One action for all batches."""

    def __init__(self, action: Action, each: int | None, functions: list[str], times: int = 1) -> None:
        self.action, self.each, self.functions, self.window = action, each, functions, action.window
        self.times = times
        self.selectors = {**dict.fromkeys(functions, Uniform()), **action.selectors()}

    def assign(self, batch: Batch, count: int, training: RankerTraining, rng: np.random.Generator) -> NDArray[np.int64]:
        return self.action.assign(self.functions, len(batch), count, self.each, rng, self.times)


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
