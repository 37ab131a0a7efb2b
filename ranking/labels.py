"""Turns categories of documents and queries into numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.errors import BadInput
from pyrite.ranking.texts import Texts

KINDS = ("category", "subcategory")


@dataclass(frozen=True)
class LabelCounts:
    """The number of labels of each kind: the layout of a one-hot input, categories first."""

    categories: int
    subcategories: int

    @property
    def total(self) -> int:
        """The length of both one-hot vectors together."""
        return self.categories + self.subcategories


def label_names(collection: Collection) -> list[list[str]]:
    """Return the categories and the subcategories of documents and queries together, each in ascending order.

    A subcategory that occurs in several categories (e.g. a type of question) is one label.
    """
    kinds = [pl.concat([some.drop_nulls().unique() for some in _labels(collection, kind)]) for kind in KINDS]
    return [names.unique().sort().to_list() for names in kinds]


def encode_labels(
    collection: Collection, names: Sequence[Sequence[str]] | None = None
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return category and subcategory of each document and of each query, int32 [texts, 2], −1 for none.

    Args:
        names: the labels of each kind, of which the numbers are indices; −1 for others. None takes the collection's.
    """
    columns: tuple[list[NDArray[np.int32]], ...] = ([], [])
    for kind, known in zip(KINDS, names or label_names(collection), strict=True):
        numbers = pl.DataFrame(
            {kind: pl.Series(known, dtype=pl.String), "number": np.arange(len(known), dtype=np.int32)}
        )
        for column, some in zip(columns, _labels(collection, kind), strict=True):
            ids = some.to_frame().join(numbers, on=kind, how="left", maintain_order="left")["number"]
            column.append(ids.fill_null(-1).to_numpy().astype(np.int32))
    return np.stack(columns[0], 1), np.stack(columns[1], 1)


def _labels(collection: Collection, kind: str) -> list[pl.Series]:
    """Return the labels of documents and of queries; nulls if they have none."""
    # Columns that are known to be empty are not opened: they may lie on another machine.
    frames = (None if kind in collection.empty else collection.documents, collection.queries)
    return [
        pl.Series(kind, [None] * size, pl.String)
        if frame is None or kind not in frame.columns
        else frame[kind].cast(pl.String)
        for frame, size in zip(frames, (collection.size, len(collection.queries)), strict=True)
    ]


def label_counts(documents: Texts, queries: Texts) -> LabelCounts:
    """Return the number of labels of each kind."""
    labels = (texts.labels for texts in (documents, queries) if texts.labels is not None)
    categories, subcategories = np.max([(-1, -1), *(some.max(axis=0, initial=-1) for some in labels)], axis=0)
    return LabelCounts(int(categories) + 1, int(subcategories) + 1)


def labels_of(texts: Texts, wanted_by: str) -> NDArray[np.int32]:
    """Return the labels of texts that must have some, because the option `wanted_by` needs them."""
    if texts.labels is None or not (texts.labels[:, 0] >= 0).any():
        raise BadInput(
            "the collection has no categories", wanted_by, "choose one whose metadata.category says them, or leave it"
        )
    return texts.labels
