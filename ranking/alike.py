"""Finds texts with the same content, so that what scores them treats them alike on every machine."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pyrite.ranking.pieced_array import PiecedArray
from pyrite.ranking.texts import Texts


def digests(texts: Texts, rows: NDArray[np.integer], reach: int | None = None) -> NDArray[np.uint64]:
    """Return a number for what a ranker reads of each text [n]: equal for texts that are alike.

    Among a million different texts, two have the same number with a probability of 3·10⁻⁸.

    Args:
        reach: the number of tokens read of a text. None reads all.
    """
    numbers = np.zeros(len(rows), np.uint64)
    most = np.iinfo(np.int64).max if reach is None else reach
    rows = np.asarray(rows, np.int64)
    if isinstance(texts.tokens, PiecedArray):
        for places, tokens, start in texts.tokens.parts(texts.offsets[rows]):
            of_piece = np.zeros(len(rows[places]), np.uint64)
            _digest(tokens, texts.offsets, rows[places], start, most, of_piece)
            numbers[places] = of_piece
    else:
        _digest(texts.tokens, texts.offsets, rows, 0, most, numbers)
    if texts.labels is not None:
        for label in texts.labels[rows].T.astype(np.uint64):
            numbers = mix(numbers ^ (label + np.uint64(0x9E3779B97F4A7C15)))
    return numbers


def mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread each number over all 64 bits (SplitMix64; Steele et al. 2014)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


@njit(nogil=True, cache=True)
def _digest(tokens, offsets, rows, first, most, numbers):  # type: ignore[no-untyped-def]  # pragma: no cover
    for index in range(len(rows)):
        start = offsets[rows[index]] - first
        end = min(offsets[rows[index] + 1] - first, start + min(most, len(tokens)))
        value = np.uint64(end - start + 1) * np.uint64(0x9E3779B97F4A7C15)
        for position in range(start, end):
            value = (value ^ np.uint64(tokens[position])) * np.uint64(0xBF58476D1CE4E5B9)
            value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            value ^= value >> np.uint64(31)
        numbers[index] = value


def group_alike(
    contents: NDArray[np.uint64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Number the different texts among some, by their `digests` [n], in the order of their first occurrence.

    Returns:
        The index of each different text's first occurrence [d], the number of each text [n], and which of the different
        ones [d] occur more than once.
    """
    _, first, alike, times = np.unique(contents, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first)
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    return first[order], number[alike], times[order] > 1


def tie_repeats(scores: NDArray[np.float32], places: NDArray[np.integer], repeated: NDArray[np.bool_]) -> None:
    """Set the score of each duplicate in a row to the highest among them, in place.

    Args:
        places: [q, m] from 0 up: equal numbers are alike.
        repeated: the places that may have a duplicate; the others are left alone.
    """
    rows, columns = np.nonzero(repeated)
    if not len(rows):
        return
    keys = rows * (int(places.max()) + 1) + places[rows, columns]
    _, groups = np.unique(keys, return_inverse=True)
    highest = np.full(int(groups.max()) + 1, -np.inf, np.float32)
    with np.errstate(invalid="ignore"):  # nan, from a ranker that has diverged, stays nan
        np.maximum.at(highest, groups, scores[rows, columns])
    scores[rows, columns] = highest[groups]
