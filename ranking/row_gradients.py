"""Makes the gradient of a table from the rows that a batch has read, if an optimizer requests it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor, nn


def mark_rows(tables: Iterable[nn.Parameter]) -> None:
    """Make the gradients of some tables come by rows."""
    for table in tables:
        table.by_rows = True  # type: ignore[attr-defined]


def wants_rows(table: Tensor) -> bool:
    """Return whether a table's gradient should come by rows."""
    return getattr(table, "by_rows", False)


@dataclass(frozen=True)
class RowsRead:
    """The rows of a table that a batch has read, and the array of their gradient.

    Args:
        gradient: float32 [rows, width], for the rows that were read, or for all.
        places: int32 by token, its row in `gradient`.
        rows: int64, the table's rows in `gradient`, ascending. None for all of them.
        size: the shape of the table.
    """

    gradient: NDArray[np.float32]
    places: NDArray[np.int32]
    rows: NDArray[np.int64] | None
    size: tuple[int, ...]

    @classmethod
    def of(cls, tokens: NDArray[np.int32], size: tuple[int, ...], by_rows: bool) -> RowsRead:
        """Make the gradient array of a table of `size` of which `tokens` were read."""
        if not by_rows:
            return cls(np.zeros(size, np.float32), tokens, None, tuple(size))
        rows, places = _distinct(tokens, size[0])
        return cls(np.zeros((len(rows), *size[1:]), np.float32), places, rows, tuple(size))

    def tensor(self) -> Tensor:
        """Return the gradient, sparse if it has only some rows."""
        values = torch.from_numpy(self.gradient)
        if self.rows is None:
            return values
        rows = torch.from_numpy(self.rows)[None]
        return torch.sparse_coo_tensor(rows, values, self.size, is_coalesced=True, check_invariants=False)


@njit(nogil=True, cache=True)
def _distinct(tokens, size):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return the distinct tokens, ascending, and the index of each token among them."""
    index = np.full(size, -1, np.int32)
    for token in tokens:
        index[token] = 0
    count = 0
    rows = np.empty(min(size, len(tokens)), np.int64)
    for token in range(size):
        if index[token] == 0:
            index[token] = count
            rows[count] = token
            count += 1
    places = np.empty(len(tokens), np.int32)
    for position in range(len(tokens)):
        places[position] = index[tokens[position]]
    return rows[:count], places
