"""Defines the parts that runs share, and restores them from the cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster.runs.zero_shot import ZeroShot
from ranking.encoding import EncodedCollection, Judgements
from ranking.errors import BadInput
from ranking.evaluation.origins import Candidates
from ranking.pair_scores import PairScores
from ranking.ranked_lists import RankedLists
from ranking.splits import Split
from ranking.texts import Texts
from ranking.tokenization import Tokens
from ranking.vectors import WordVectors
from rl.compression import Compressed
from rl.mixture import MixtureAgent
from rl.trained import TrainedAgent
from sampling.guarded_documents import GuardedDocuments


@dataclass(frozen=True)
class Base:
    """The part that every run needs."""

    encoded: EncodedCollection
    vectors: WordVectors
    splits: list[Split]
    spelled: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    """The words of the vocabulary in UTF-8, one per line. Rankers that read words are stored with them."""

    @property
    def words(self) -> list[str]:
        """The word of each token id."""
        return self.spelled.tobytes().decode().split("\n")

    def queries(self, split: str) -> NDArray[np.int64]:
        """Return the queries that any fold has in a split.

        Raises:
            BadInput: if the collection has no splits and too few queries to cross-validate.
        """
        if not self.splits:
            raise BadInput("there are too few queries to cross-validate", "folds", "bring more queries, or a split")
        return np.unique(np.concatenate([getattr(fold, split) for fold in self.splits]))


@dataclass(frozen=True)
class Lists:
    """The lists of a retrieval function (None if it ranks during training), and what the guard dropped from them."""

    lists: RankedLists | None
    guarded: GuardedDocuments


Part = (
    Base
    | Tokens
    | Candidates
    | Lists
    | RankedLists
    | PairScores
    | Compressed
    | NDArray[np.float32]
    | TrainedAgent
    | MixtureAgent
    | ZeroShot
)


def read_encoded(parts: dict[str, Any]) -> EncodedCollection:
    """Return the collection as the ranker reads it, as words or as tokens."""
    encoded: EncodedCollection = parts["base"].encoded
    tokens: Tokens | None = parts.get("tokens")
    if tokens is None:
        return encoded
    documents = replace(tokens.documents, labels=encoded.documents.labels)
    return replace(encoded, documents=documents, queries=replace(tokens.queries, labels=encoded.queries.labels))


def restored(name: str, state: Any) -> Part:
    """Return a part, named as `function:bm25`, from the fields that `ranking.checkpoint` has read."""
    return _RESTORE[name.partition(":")[0]](state)


def _texts(state: dict[str, Any]) -> Texts:
    return Texts(state["tokens"], state["offsets"], state["labels"])


def _tokens(state: dict[str, Any]) -> Tokens:
    return Tokens(_texts(state["documents"]), _texts(state["queries"]))


def _zero_shot(state: dict[str, Any]) -> ZeroShot:
    candidates = {name: _candidates(each) for name, each in state["candidates"].items()}
    return ZeroShot(_encoded(state["encoded"]), candidates)


def _encoded(state: dict[str, Any]) -> EncodedCollection:
    texts = {name: _texts(state[name]) for name in ("documents", "queries")}
    return EncodedCollection(**(state | texts | {"judgements": Judgements(**state["judgements"])}))


def _base(state: dict[str, Any]) -> Base:
    splits = [Split(**split) for split in state["splits"]]
    return Base(_encoded(state["encoded"]), WordVectors(**state["vectors"]), splits, state["spelled"])


def _candidates(state: dict[str, Any]) -> Candidates:
    return Candidates(**(state | {"first_stage": RankedLists(**state["first_stage"])}))


def _lists(state: dict[str, Any]) -> Lists:
    return Lists(RankedLists(**state["lists"]) if state["lists"] else None, GuardedDocuments(**state["guarded"]))


_RESTORE: dict[str, Callable[[Any], Part]] = {
    "base": _base, "tokens": _tokens, "origin": _candidates, "validation": _candidates, "function": _lists,
    "evaluate": _zero_shot,
    "compressed": lambda state: Compressed(**state), "similarity": lambda table: table,
    "candidates": lambda table: table, "objective": lambda state: RankedLists(**state),
    "teacher": lambda state: PairScores(**state),
}  # fmt: skip
