"""Turns categories of documents and queries into numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ranking.collections.collection import Collection
from ranking.errors import BadInput
from ranking.texts import Texts

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


def encode_labels(collection: Collection) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return category and subcategory of each document and of each query, int32 [texts, 2], −1 for none.

    A label's number is its index among the distinct labels of its kind, of documents and queries together, in
    ascending order. A subcategory that occurs in several categories (a type of question, say) is one label.
    """
    columns: tuple[list[NDArray[np.int32]], ...] = ([], [])
    sizes = collection.size, len(collection.queries)
    for kind in KINDS:
        # Columns that are known to be empty are not opened: they may lie on another machine.
        frames = (None if kind in collection.empty else collection.documents, collection.queries)
        labels = [_labels(frame, kind, size) for frame, size in zip(frames, sizes, strict=True)]
        names = pl.concat([some.drop_nulls().unique() for some in labels]).unique().sort()
        numbers = pl.DataFrame({kind: names, "number": np.arange(len(names), dtype=np.int32)})
        for column, some in zip(columns, labels, strict=True):
            ids = some.to_frame().join(numbers, on=kind, how="left", maintain_order="left")["number"]
            column.append(ids.fill_null(-1).to_numpy().astype(np.int32))
    return np.stack(columns[0], 1), np.stack(columns[1], 1)


def _labels(frame: pl.DataFrame | None, kind: str, size: int) -> pl.Series:
    """Return a column; nulls if there is none."""
    if frame is None or kind not in frame.columns:
        return pl.Series(kind, [None] * size, pl.String)
    return frame[kind].cast(pl.String)


def label_counts(documents: Texts, queries: Texts) -> LabelCounts:
    """Return the number of labels of each kind."""
    labels = [texts.labels for texts in (documents, queries) if texts.labels is not None and len(texts)]
    highest = np.max([some.max(axis=0) for some in labels], axis=0) if labels else np.full(2, -1)
    return LabelCounts(*(int(number) + 1 for number in highest))


def labels_of(texts: Texts, wanted_by: str) -> NDArray[np.int32]:
    """Return the labels of texts that must have some, because the option `wanted_by` needs them."""
    if texts.labels is None or not (texts.labels[:, 0] >= 0).any():
        raise BadInput(
            "the collection has no categories", wanted_by, "choose one whose metadata.category says them, or leave it"
        )
    return texts.labels
