"""Finds values among ascending ones. Pairs of a query and a document, each one number, are looked up with it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def find(ascending: NDArray[np.integer], wanted: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the index of each wanted value, and whether it exists, in their shape; otherwise the index is arbitrary.

    Args:
        ascending: [n], whole numbers.
        wanted: values of the same type, in any shape.
    """
    if not len(ascending):
        return np.zeros(wanted.shape, np.int64), np.zeros(wanted.shape, bool)
    places = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    return places, ascending[places] == wanted
