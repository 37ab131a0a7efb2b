"""Defines the parts that runs share, and restores them from the cache."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass, replace
from types import UnionType
from typing import Any, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.errors import refuse
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.ranking.splits import Split
from pyrite.ranking.tokenization import Tokens
from pyrite.ranking.vectors import WordVectors
from pyrite.sampling.guarded_documents import GuardedDocuments


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
        """Return the queries that any fold has in a split."""
        refuse(
            not self.splits, "there are too few queries to cross-validate", "folds", "bring more queries, or a split"
        )
        return np.unique(np.concatenate([getattr(fold, split) for fold in self.splits]))


@dataclass(frozen=True)
class Lists:
    """The lists of a retrieval function (None if it ranks during training), and what the guard dropped from them."""

    lists: RankedLists | None
    guarded: GuardedDocuments


def read_encoded(parts: dict[str, Any]) -> EncodedCollection:
    """Return the collection as the ranker reads it, as words or as tokens."""
    encoded: EncodedCollection = parts["base"].encoded
    tokens: Tokens | None = parts.get("tokens")
    if tokens is None:
        return encoded
    documents = replace(tokens.documents, labels=encoded.documents.labels)
    return replace(encoded, documents=documents, queries=replace(tokens.queries, labels=encoded.queries.labels))


def restored(kind: Any, state: Any) -> Any:
    """Return a value of a declared type, in which each mapping that represents a dataclass becomes one.

    Args:
        kind: the type, such as the return annotation of the function that makes a part.
        state: what `pyrite.ranking.checkpoint` has read: mappings, lists and arrays.
    """
    inner = next(filter(is_dataclass, get_args(kind)), None)  # of list[C], dict[str, C] or C | None
    if isinstance(kind, UnionType):
        kind = inner
    if isinstance(state, dict) and is_dataclass(kind):
        types = get_type_hints(kind)
        return kind(**{name: restored(types[name], value) for name, value in state.items()})  # type: ignore[operator]
    if inner is None:
        return state
    if isinstance(state, dict):
        return {name: restored(inner, value) for name, value in state.items()}
    return [restored(inner, value) for value in state] if isinstance(state, list) else state


def protect(part: Any) -> None:
    """Make the arrays of a part read-only, as Ray's object store does: runs share them, and users' classes get them."""
    if isinstance(part, np.ndarray):
        part.flags.writeable = False
    elif is_dataclass(part):
        for each in fields(part):
            protect(getattr(part, each.name))
    elif isinstance(part, dict | list | tuple):
        for value in part.values() if isinstance(part, dict) else part:
            protect(value)
