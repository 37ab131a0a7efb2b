"""Serves batches of texts with their negatives to the user's training loop.

data = Negatives(Collection.from_pairs("pairs.csv"), BM25(pick=Dynamic()), score=my_scores)
for batch in data:                               # an epoch
    scores = my_scores(batch.queries, batch.documents)
    loss = ...
    data.observe(batch, scores, loss.item())     # policy and selector learn from them
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import IterableDataset, get_worker_info

from pyrite.cluster.config.build import build
from pyrite.cluster.config.compose import compose
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.assemble import make_sampler
from pyrite.data import Collection, about_tables, as_collection
from pyrite.parts import overrides_of_negatives
from pyrite.ranking.batch import Batch, UpdateResult, pairs_of
from pyrite.ranking.dropout import DropoutSeeds
from pyrite.ranking.errors import BadInput
from pyrite.ranking.frozen import FrozenRanker
from pyrite.ranking.pair_scores import PairScores
from pyrite.ranking.rankers.ranker import Ranker
from pyrite.running import listed, settings
from pyrite.sampling.suppliers import Negatives as Sum

__all__ = ["Negatives", "Score", "ServedBatch"]

Score = Callable[[Sequence[str], Sequence[Sequence[str]]], Any]
"""Returns the model's scores of each query's documents [b, m], as an array or tensor; an empty text is no document."""


@dataclass(frozen=True)
class ServedBatch:
    """A batch as texts.

    Args:
        step: its number, from 0.
        queries: b texts.
        documents: for each query its positive and its negatives: b lists of one length, "" if there are too few.
        present: bool [b, 1 + n], whether there is a document.
        query_ids: the ids of the queries.
        document_ids: the ids of the documents, None if there is no document.
        scores: float32 [b, n], the functions' scores of the negatives, nan if they have none.
        teacher: float32 [b, 1 + n], the scores of `teacher=` for distillation, nan if it has none; None without a
            teacher.
        places: the batch and its negatives as indices.
    """

    step: int
    queries: list[str]
    documents: list[list[str]]
    present: torch.Tensor
    query_ids: list[str]
    document_ids: list[list[str | None]]
    scores: torch.Tensor
    teacher: torch.Tensor | None
    places: tuple[Batch, NDArray[np.int32]] = field(repr=False)

    def __len__(self) -> int:
        return len(self.queries)


class Negatives(IterableDataset[ServedBatch]):
    """Batches of training pairs with their negatives; each iteration is an epoch.

    The pairs, their order and the negatives are the same as those of `pyrite train` with these overrides, as far as
    they do not depend on the ranker. Iterate in the training's process (`num_workers=0`, and `batch_size=None` for a
    `DataLoader`), since a policy continues from the last batch.

    Args:
        data: the collection, its path, or a table of pairs; or overrides of a run: collection, functions, policy,
            selector, `training.batch_size`, `sampling.negatives`, seed.
        negatives: where negatives come from, if `data` is a collection.
        score: returns the model's current scores, for selectors that ask for them (`dynamic`, `simans`, …).
        options: further overrides by key, as `{"training.batch_size": 16}`.
        note: called with a line for each preparation step.

    Raises:
        BadInput: if an option is wrong; with the first batch if a part needs Pyrite's ranker (`function=dense`,
            `function=memory`, `selector=adversarial`); in `observe` if a policy needs its step (`policy=curriculum`).
    """

    def __init__(
        self,
        data: Collection | str | os.PathLike[str] | Iterable[object] = (),
        negatives: object = None,
        *,
        score: Score | None = None,
        options: Mapping[str, object] | None = None,
        note: Callable[[str], None] = lambda line: None,
    ) -> None:
        super().__init__()
        data = as_collection(data)
        texts = data.overrides() if isinstance(data, Collection) else listed(data)
        texts += [] if negatives is None else overrides_of_negatives(Sum.of(negatives))
        config = compose([*texts, *settings(options=options)])
        artifacts = Artifacts(note)
        with about_tables():
            self.collection, self.score = artifacts.collection(config), score
        wanted = [name for name in artifacts.keys(config) if name.split(":")[0] in _PARTS]
        parts: dict[str, Any] = {name: artifacts.part(config, name) for name in wanted}
        base = parts["base"]
        _, order, sampling = np.random.SeedSequence([config["seed"], 0]).spawn(3)
        self._rng = np.random.default_rng(order)
        DropoutSeeds(self._rng)  # a run's training draws these first
        self.sampler = make_sampler(config, parts, np.random.default_rng(sampling))
        split = base.splits[0]
        self._batches = build(config["batches"], "batches", trust="composed")
        self._batches.prepare(base.encoded, base.vectors, split.train)
        self.training = _ExternalTraining(self, base.encoded, config["training"], parts.get("teacher"))
        self.training.examples = pairs_of(base.encoded, split.train, config["limits"]["examples"])
        self._documents, self._queries = self.collection.documents, self.collection.queries
        self._served: ServedBatch | None = None

    def __len__(self) -> int:
        """Return the number of batches per epoch."""
        return self.training.steps_per_epoch

    def __iter__(self) -> Iterator[ServedBatch]:
        """Iterate over the batches of the next epoch."""
        if get_worker_info() is not None:
            raise BadInput("a policy can't continue in several processes", "num_workers", "load with num_workers=0")
        training = self.training
        order = self._batches.order(training.examples, training.batch_size, self._rng)
        training.position = 0
        for start in range(0, len(order), training.batch_size):
            batch = training.examples.take(order[start : start + training.batch_size])
            self._served = self._serve(batch, self.sampler.negatives(batch, training))  # type: ignore[arg-type]
            yield self._served
            training.step += 1
            training.position += len(batch)
        training.epoch += 1

    def _serve(self, batch: Batch, negatives: NDArray[np.int32]) -> ServedBatch:
        shown = np.concatenate([batch.positives[:, None], negatives], axis=1)
        texts, ids = self._cells(shown, "text"), self._cells(shown, "id")
        queries = self._queries[batch.queries.astype(np.uint32)]
        teacher = self.training.teacher
        return ServedBatch(
            self.training.step,
            queries["text"].to_list(),
            [[text or "" for text in row] for row in texts],
            torch.from_numpy(shown >= 0),
            queries["id"].to_list(),
            ids,
            torch.from_numpy(self.sampler.source_scores.copy()),
            None if teacher is None else torch.from_numpy(teacher.lookup(batch.queries, shown)),
            (batch, negatives),
        )

    def _cells(self, shown: NDArray[np.integer], column: str) -> list[list[str | None]]:
        """Return a column of the documents of each row, None if there is no document."""
        values = self._documents[column].gather(np.maximum(shown, 0).ravel().astype(np.uint32)).to_list()
        flat = [value if exists else None for value, exists in zip(values, (shown >= 0).ravel(), strict=True)]
        return [flat[start : start + shown.shape[1]] for start in range(0, len(flat), shown.shape[1])]

    @property
    def columns(self) -> list[str]:
        """The columns of `rows`, all of them texts."""
        return ["query", "positive", *(f"negative_{place}" for place in range(1, 1 + self.sampler.count))]

    def rows(self) -> Iterator[dict[str, str]]:
        """Iterate over the rows of the next epoch, for `SentenceTransformerTrainer`: query, positive, negative_1 …

        Rows with fewer negatives are left out. A loader's batch size may differ from `training.batch_size`. Loaders
        fetch ahead, so `observe` must not be called for these rows.
        """
        for batch in self:
            for query, documents in zip(batch.queries, batch.documents, strict=True):
                if all(documents):
                    yield dict(zip(self.columns, [query, *documents], strict=True))

    def observe(self, batch: ServedBatch, scores: Any, loss: float = 0.0, gradient_norm: float = 0.0) -> None:
        """Receive the model's scores of a batch, before its update: policies and selectors learn from them.

        Args:
            batch: the batch that was served last.
            scores: [b, 1 + n], the scores of its documents, as an array or tensor.
            loss: the batch loss.
            gradient_norm: the norm of its gradient, for policies that read it.

        Raises:
            ValueError: if it is not the last batch, or the scores have another shape.
        """
        if self._served is None or batch.step != self._served.step:
            raise ValueError(f"batch {batch.step} was not served last: observe each batch before the next")
        observed = _numbers(scores)
        if observed.shape != tuple(batch.present.shape):
            raise ValueError(f"scores are {observed.shape}, and the batch is {tuple(batch.present.shape)}")
        of_batch, negatives = batch.places
        self.training.position += len(of_batch)
        self.training.step += 1
        try:
            self.sampler.observe(negatives, UpdateResult(float(loss), float(gradient_norm), observed))
        finally:
            self.training.position -= len(of_batch)
            self.training.step -= 1
        self._served = None


_PARTS = ("base", "function", "agent", "compressed", "similarity", "candidates", "teacher")
"""Parts of a run that a sampler reads."""


class _ExternalTraining(FrozenRanker):
    """The view of the user's training that a sampler receives."""

    examples: Batch

    def __init__(self, data: Negatives, encoded: Any, options: dict[str, Any], teacher: PairScores | None) -> None:
        super().__init__(None, encoded)
        self._teacher = teacher
        self._data, self.batch_size, self.max_epochs = data, options["batch_size"], options["max_epochs"]
        self.losses: list[float] = []
        self.validations: list[float] = []

    @property
    def steps_per_epoch(self) -> int:  # type: ignore[override]
        """Batches per epoch."""
        return -(-len(self.examples) // self.batch_size)

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

    def loss_now(self, batch: Batch, negatives: NDArray[np.int32]) -> float:
        """Raise: the model makes its step after a batch is observed."""
        what = "this policy compares losses before and after a step, and the step is made elsewhere"
        raise BadInput(what, "policy", "choose fixed, random, mixture or schedule")

    def score(self, queries: NDArray[np.integer], documents: NDArray[np.integer]) -> NDArray[np.float32]:
        """Return the model's scores [q, m], −inf if the document is −1."""
        score = self._data.score
        if score is None:
            raise BadInput("this way of choosing asks the model for scores", "selector", "give Negatives(…, score=…)")
        texts = [[text or "" for text in row] for row in self._data._cells(documents, "text")]
        query_texts = self._data.collection.queries["text"].gather(np.asarray(queries).astype(np.uint32)).to_list()
        scores = _numbers(score(query_texts, texts))
        if scores.shape != documents.shape:
            raise ValueError(f"score returned {scores.shape} for {documents.shape} documents")
        if unknown := int((np.isnan(scores) & (documents >= 0)).sum()):
            raise ValueError(f"score returned NaN for {unknown} of {int((documents >= 0).sum())} documents")
        return np.where(documents >= 0, scores, -np.inf).astype(np.float32)


def _numbers(scores: Any) -> NDArray[np.float32]:
    if isinstance(scores, torch.Tensor):
        scores = scores.detach().cpu().float().numpy()
    return np.asarray(scores, np.float32)
