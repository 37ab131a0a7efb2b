"""Replaces a training for parts that choose negatives when the model is trained elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pyrite.ranking.batch import Batch
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.errors import BadInput
from pyrite.ranking.frozen import FrozenRanker
from pyrite.ranking.pair_scores import PairScores
from pyrite.ranking.rankers.ranker import Ranker
from pyrite.torch.batch_versions import LoaderCounts
from pyrite.torch.served_dense import ServedVersion

Score = Callable[[Sequence[str], Sequence[Sequence[str]]], Any]
"""Returns the model's scores of each query's documents [b, m], as an array or tensor; an empty text is no document."""


class ExternalTraining(FrozenRanker):
    """The view of the user's training that a sampler receives.

    Args:
        options: the options `training.…` of a run.
        score: returns the model's current scores; None takes those of `service`.
        service: the version of the negative index in use; None without an index.

    Attributes:
        loader: how the attached trainer reads its batches; None in a loop.
    """

    examples: Batch

    def __init__(
        self,
        collection: Collection,
        encoded: EncodedCollection,
        options: dict[str, Any],
        teacher: PairScores | None,
        score: Score | None,
        service: ServedVersion | None = None,
    ) -> None:
        super().__init__(None, encoded)
        self._teacher, self._score, self.service = teacher, score, service
        self.collection, self.batch_size, self.max_epochs = collection, options["batch_size"], options["max_epochs"]
        self.loader: LoaderCounts | None = None
        self.losses: list[float] = []
        self.validations: list[float] = []

    @property
    def steps_per_epoch(self) -> int:  # type: ignore[override]
        """Optimizer steps per epoch of the attached trainer; without one, batches per epoch."""
        return -(-len(self.examples) // self.batch_size) if self.loader is None else self.loader.steps

    @property
    def epoch_over(self) -> bool:  # type: ignore[override]
        """Whether the last batch of the epoch was trained on."""
        return self.position >= len(self.examples)

    @property
    def teacher(self) -> PairScores | None:
        """The teacher, whose margins selectors may read."""
        return self._teacher

    @property
    def ranker(self) -> Ranker:
        """Raise: the model is the user's."""
        what = "this way of choosing needs the vectors or weights of a Pyrite ranker"
        raise BadInput(what, "function or selector", "choose one that needs scores only, or `pyrite train`")

    def loss_now(self) -> float:
        """Raise: the model makes its step after a batch is observed."""
        what = "this policy compares losses before and after a step, and the step is made elsewhere"
        raise BadInput(what, "policy", "choose fixed, random, mixture or schedule")

    def score(self, queries: NDArray[np.integer], documents: NDArray[np.integer]) -> NDArray[np.float32]:
        """Return the model's scores [q, m], −inf if the document is −1: current ones, or those of the version."""
        if self._score is not None:
            texts = self.texts(documents)
            query_texts = self.collection.queries["text"].gather(np.asarray(queries).astype(np.uint32)).to_list()
            scores = numbers(self._score(query_texts, texts))
        elif self.service is not None:
            scores = self.service.scores(queries, documents)
        else:
            what = "this way of choosing asks the model for scores"
            raise BadInput(
                what, "selector", "give Negatives(…, model=…) or score=…; in a study data.negatives.use(model=…)"
            )
        if scores.shape != documents.shape:
            raise ValueError(f"score returned {scores.shape} for {documents.shape} documents")
        if unknown := int((np.isnan(scores) & (documents >= 0)).sum()):
            if self._score is None:
                what = "this model's versions score the documents of their lists alone, and another was asked for"
                raise BadInput(what, "selector", "give the selector to function=dense, or choose one without scores")
            raise ValueError(f"score returned NaN for {unknown} of {int((documents >= 0).sum())} documents")
        return np.where(documents >= 0, scores, -np.inf).astype(np.float32)

    def texts(self, shown: NDArray[np.integer]) -> list[list[str]]:
        """Return the texts of the documents of each row, empty if there is no document."""
        return [[text or "" for text in row] for row in self.cells(shown, "text")]

    def cells(self, shown: NDArray[np.integer], column: str) -> list[list[str | None]]:
        """Return a column of the documents of each row, None if there is no document."""
        values = self.collection.documents[column].gather(np.maximum(shown, 0).ravel().astype(np.uint32)).to_list()
        flat = [value if exists else None for value, exists in zip(values, (shown >= 0).ravel(), strict=True)]
        width = shown.shape[1]
        return [flat[row * width : (row + 1) * width] for row in range(len(shown))]


def numbers(scores: Any) -> NDArray[np.float32]:
    """Return scores of the user's as an array."""
    if isinstance(scores, torch.Tensor):
        scores = scores.detach().cpu().float().numpy()
    return np.asarray(scores, np.float32)
