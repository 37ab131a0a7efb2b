"""Draws negatives for pairs of another trainer's batch: each pair by a separate generator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.batch import Batch
from pyrite.ranking.errors import refuse
from pyrite.sampling.filtered import FilteredFunction
from pyrite.sampling.policies.policy import SamplingPolicy
from pyrite.sampling.relevant_pairs import RelevantPairs
from pyrite.sampling.retrieval.function import RetrievalFunction
from pyrite.sampling.retrieval.random import Random
from pyrite.sampling.sampler import Sampler
from pyrite.sampling.selection.from_margin import FromMargin
from pyrite.sampling.selection.selector import Selector
from pyrite.sampling.selection.shared import Shared
from pyrite.torch.external_training import ExternalTraining

AFTER_A_STEP: dict[type, str] = {
    SamplingPolicy: "observe", Selector: "observe", RetrievalFunction: "after_selection",
}  # fmt: skip
"""By kind of part the method that needs a step of the training, which a trainer of others' does not return."""
OF_A_BATCH = (Shared, FromMargin)
"""Selectors that choose for all queries of a batch together."""


class Assigned:
    """The choice that a policy has made for a whole batch, for one of its rows."""

    def __init__(self, policy: SamplingPolicy, assigned: NDArray[np.int64]) -> None:
        self.window, self.selectors, self._assigned = policy.window, policy.selectors, assigned

    def assign(self, *arguments: Any) -> NDArray[np.int64]:
        """Return it."""
        return self._assigned


@dataclass(frozen=True)
class PairsDrawn:
    """The negatives of some pairs.

    Args:
        negatives: int32 [b, n].
        assigned: int64 [b, n], the index of the function that each comes from; −1 if it was drawn at random, since
            there were too few.
    """

    negatives: NDArray[np.int32]
    assigned: NDArray[np.int64]


class PairDraws:
    """Draws the same negatives for a pair of one version and epoch, whatever process or batch asks for them.

    The exception are documents that are a positive of the batch, and, if its queries see each other's negatives, those
    that are relevant for one of them or are the query itself: they are replaced.

    Args:
        within_batch: whether the loss compares each query with the negatives of all rows of its batch.

    Raises:
        BadInput: if a part learns from the steps of a training, or a selector chooses for a whole batch.
    """

    def __init__(self, sampler: Sampler, training: ExternalTraining, seed: int, within_batch: bool = False) -> None:
        self.sampler, self.training, self.seed, self.within_batch = sampler, training, seed, within_batch
        parts = [*sampler.functions.values(), sampler.policy, sampler.selector, *sampler.selectors.values()]
        for part in [*parts, *sampler.policy.selectors.values()]:
            what = f"{type(part).__name__} chooses for a whole batch, and in a trainer each pair is drawn by itself"
            remedy = "choose another, or iterate over Negatives in a loop of your own"
            refuse(isinstance(part, OF_A_BATCH), what, "selector", remedy)
            learner = _learns(part)
            what = f"{learner} learns from losses or scores of each step, which a trainer's loader lacks"
            refuse(learner, what, "negatives", remedy)
        what = "each= gives some queries more negatives than others, and a trainer's rows have one number"
        refuse(sampler.policy.each is not None, what, "policy.each", "leave it out")
        self.start()
        self._relevant = RelevantPairs(training.encoded)
        self._random = Random()
        self._random.prepare(training.encoded, None)
        self._empty = self._empty_documents()

    def start(self) -> None:
        """Start a training: forget the lists of one before."""
        self.sampler.start(self.training)  # type: ignore[arg-type]

    def __call__(self, pairs: NDArray[np.integer], version: int, epoch: int | NDArray[np.integer]) -> PairsDrawn:
        """Draw the negatives of pairs of `training.examples` that are in a batch together.

        Args:
            version: the step of the version that the functions and selectors read; −1 for none.
            epoch: the number of the epoch, of all pairs or of each.
        """
        batch, sampler, training = self.training.examples.take(pairs), self.sampler, self.training
        if not sampler.functions:
            return PairsDrawn(np.zeros((len(batch), 0), np.int32), np.zeros((len(batch), 0), np.int64))
        epochs = np.broadcast_to(epoch, len(batch)).tolist()
        of_batch = np.random.default_rng([self.seed, max(epochs, default=0), *np.asarray(pairs).tolist()])
        assigned = sampler.policy.assign(batch, sampler.count, training, of_batch)  # type: ignore[arg-type]
        together = self._barred(batch)
        negatives, functions = np.full((2, len(batch), sampler.count), -1, np.int64)
        for row, pair in enumerate(np.asarray(pairs).tolist()):
            rng, one = np.random.default_rng([self.seed, pair, version + 1, epochs[row]]), batch.take(np.array([row]))
            policy: Any = Assigned(sampler.policy, assigned[[row]])
            drawn = sampler.sources.draw(one, training, policy, rng, together)  # type: ignore[arg-type]
            present = drawn.negatives[0] >= 0
            negatives[row] = drawn.negatives[0]
            functions[row] = np.where(present, assigned[row], -1)
            if not present.all():
                negatives[row, ~present] = self._at_random(one, negatives[row, present], together, rng)
        return PairsDrawn(negatives.astype(np.int32), functions)

    def _barred(self, batch: Batch) -> NDArray[np.integer]:
        """Return the contents, ascending, of the documents that are no negatives of any query of a batch."""
        barred = [self.training.encoded.contents(np.concatenate([batch.positives, self._empty]))]
        if self.within_batch:  # a query may have others that are no positive of this batch, and be a document itself
            barred.append(self._relevant.contents_of(batch.queries))
        return np.unique(np.concatenate(barred))

    def _at_random(
        self, one: Batch, taken: NDArray[np.integer], barred: NDArray[np.integer], rng: np.random.Generator
    ) -> NDArray[np.int32]:
        missing = self.sampler.count - len(taken)
        rest = FilteredFunction(self._random, self._relevant, taken[None].astype(np.int32), barred)
        documents = rest.sample(one, missing, rng).documents[0]
        refuse(
            len(documents) < missing or (documents < 0).any(),
            f"a query has fewer than {self.sampler.count} documents that may be its negatives",
            "negatives",
            "choose fewer, smaller batches, or a larger collection",
        )
        return documents

    def _empty_documents(self) -> NDArray[np.int32]:
        """Return the documents without text, each text once."""
        encoded = self.training.encoded
        without_words = np.flatnonzero(encoded.documents.lengths == 0)
        texts = self.training.texts(without_words[:, None])
        empty = without_words[[not text.strip() for (text,) in texts]].astype(np.int32)
        return empty[np.unique(encoded.contents(empty), return_index=True)[1]]


def _learns(part: object) -> str | None:
    """Return the name of a part's class if it needs the result of each step."""
    learns = (
        isinstance(part, kind) and getattr(type(part), method) is not getattr(kind, method)
        for kind, method in AFTER_A_STEP.items()
    )  # fmt: skip
    return type(part).__name__ if any(learns) else None
