"""Evaluates models of sentence-transformers and PyLate on the validation queries, as the measures of a run do."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sentence_transformers.evaluation import InformationRetrievalEvaluator, SentenceEvaluator

from pyrite.ranking.errors import BadInput, refuse

Similarity = Callable[[Any, Any], torch.Tensor]


@dataclass(frozen=True)
class EvaluatorKind:
    """The evaluator of one class of models.

    Args:
        module, name: where it is.
        options: the options that it has in addition to those of `InformationRetrievalEvaluator`.
    """

    module: str
    name: str
    options: tuple[str, ...] = ()

    def make(self, *arguments: Any, **options: Any) -> Any:
        """Return an evaluator."""
        return getattr(importlib.import_module(self.module), self.name)(*arguments, **options)


BY_CLASS: dict[str, EvaluatorKind] = {
    "SparseEncoder": EvaluatorKind(
        "sentence_transformers.sparse_encoder.evaluation", "SparseInformationRetrievalEvaluator", ("max_active_dims",)
    ),
    "MultiVectorEncoder": EvaluatorKind(
        "sentence_transformers.multi_vector_encoder.evaluation", "MultiVectorInformationRetrievalEvaluator",
        ("chunk_elements",),
    ),
    "ColBERT": EvaluatorKind("pylate.evaluation", "PyLateInformationRetrievalEvaluator"),
    "SentenceTransformer": EvaluatorKind("sentence_transformers.evaluation", "InformationRetrievalEvaluator"),
}  # fmt: skip
"""The evaluator of each class of models, by the name of the class or of a base."""


def kind_of(model: Any) -> EvaluatorKind:
    """Return the evaluator of a model's class.

    Raises:
        BadInput: if the model has no vectors of texts.
    """
    for kind in type(model).__mro__:
        if kind.__name__ in BY_CLASS:
            return BY_CLASS[kind.__name__]
    what = f"{type(model).__name__} has no vectors of texts, by which all documents could be ranked"
    raise BadInput(what, "evaluator", "leave it out, or give the trainer CrossEncoderRerankingEvaluator")


class WithoutOwn:
    """A similarity by which no document is a query's that is the query itself: it is −inf.

    An evaluation calls it with all queries and one chunk of the documents after the other.

    Args:
        rows, columns: the places of queries and of the documents that they are.
    """

    def __init__(self, similarity: Similarity, rows: Sequence[int], columns: Sequence[int]) -> None:
        self.similarity, self.rows, self.columns = similarity, np.asarray(rows), np.asarray(columns)
        self.start = 0

    def __call__(self, queries: Any, documents: Any) -> torch.Tensor:
        scores = self.similarity(queries, documents)
        columns = self.columns - self.start
        inside = (columns >= 0) & (columns < scores.shape[1])
        self.start += scores.shape[1]
        places = (torch.from_numpy(each[inside]).to(scores.device) for each in (self.rows, columns))
        return scores.index_put(tuple(places), scores.new_tensor(-torch.inf))


class ValidationEvaluator(SentenceEvaluator):
    """Ranks all documents for the validation queries; a query that is a document itself is no candidate of its own.

    Each model is evaluated by the evaluator of its class, so this one can be made before the model.

    Args:
        queries: texts by id.
        documents: texts by id.
        relevant: the ids of the relevant documents by query.
        own: the ids of the documents that a query is, by query.
        options: options of the evaluators.

    Raises:
        BadInput: if no evaluator has one of the options.
    """

    def __init__(
        self,
        queries: dict[str, str],
        documents: dict[str, str],
        relevant: dict[str, Set[str]],
        own: Mapping[str, Sequence[str]],
        options: Mapping[str, Any],
    ) -> None:
        super().__init__()
        known = {*inspect.signature(InformationRetrievalEvaluator).parameters}.union(
            *(kind.options for kind in BY_CLASS.values())
        )
        unknown = [name for name in options if name not in known]
        refuse(unknown, "there is no option {}", "evaluator", "see InformationRetrievalEvaluator")
        self.queries, self.documents, self.relevant, self.own = queries, documents, relevant, own
        self.options, self.name = options, options.get("name", "")
        self._evaluators: dict[tuple[str, ...], Any] = {}

    def __call__(
        self, model: Any, output_path: str | None = None, epoch: int = -1, steps: int = -1
    ) -> dict[str, float]:
        """Return the values of a model by measure."""
        evaluator = self._evaluator_of(model)
        values: dict[str, float] = evaluator(model, output_path, epoch, steps)
        self.primary_metric = evaluator.primary_metric
        return values

    def check(self, model: Any) -> None:
        """Raise `BadInput` if there is no evaluator for a model."""
        kind_of(model)

    def _evaluator_of(self, model: Any) -> Any:
        """Return the evaluator of a model; those of one class and similarity share it, and its file of values."""
        kind = kind_of(model)
        similarities = self.options.get("score_functions") or {model.similarity_fn_name: model.similarity}
        key = (kind.name, *map(str, similarities))
        if key not in self._evaluators:
            given = {**self.options, **({"score_functions": similarities} if self.own else {})}
            self._evaluators[key] = kind.make(self.queries, self.documents, self.relevant, **given)
        evaluator = self._evaluators[key]
        if self.own:
            columns = {document: column for column, document in enumerate(evaluator.corpus_ids)}
            places = [
                (row, columns[document])
                for row, query in enumerate(evaluator.queries_ids)
                for document in self.own.get(query, ())
            ]
            at = np.array(places, np.int64).reshape(-1, 2).T
            evaluator.score_functions = {name: WithoutOwn(each, *at) for name, each in similarities.items()}
        return evaluator
