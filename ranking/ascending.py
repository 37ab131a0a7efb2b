"""Finds values among ascending ones: how pairs of a query and a document are looked up, each pair one number."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def find(ascending: NDArray[np.integer], wanted: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Where each wanted value stands, and whether it does: where it does not, its place is of no use.

    Args:
        ascending: [n], whole numbers.
        wanted: of the same type, of any shape.

    Returns:
        Places and whether they hold the value, of the shape of `wanted`.
    """
    if not len(ascending):
        return np.zeros(wanted.shape, np.int64), np.zeros(wanted.shape, bool)
    places = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    return places, ascending[places] == wanted
