"""Makes the gradient of a table out of the rows that a batch has read, where an optimizer wants it so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor, nn


def mark_rows(tables: Iterable[nn.Parameter]) -> None:
    """Have the gradients of some tables come by rows."""
    for table in tables:
        table.by_rows = True  # type: ignore[attr-defined]


def wants_rows(table: Tensor) -> bool:
    """Whether a table's gradient should come by rows."""
    return getattr(table, "by_rows", False)


@dataclass(frozen=True)
class RowsRead:
    """The rows of a table that a batch has read, and room for their gradient.

    Args:
        gradient: float32 [rows, width], of those that were read, or of all.
        places: int32 by token, its row in `gradient`.
        rows: int64, the table's rows in `gradient`, ascending; None: all of them.
        size: of the table.
    """

    gradient: NDArray[np.float32]
    places: NDArray[np.int32]
    rows: NDArray[np.int64] | None
    size: tuple[int, ...]

    @classmethod
    def of(cls, tokens: NDArray[np.int32], size: tuple[int, ...], by_rows: bool) -> RowsRead:
        """Room for the gradient of a table of `size` of which `tokens` were read."""
        if not by_rows:
            return cls(np.zeros(size, np.float32), tokens, None, tuple(size))
        rows, places = _distinct(tokens, size[0])
        return cls(np.zeros((len(rows), *size[1:]), np.float32), places, rows, tuple(size))

    def tensor(self) -> Tensor:
        """The gradient, sparse where it is one of rows."""
        values = torch.from_numpy(self.gradient)
        if self.rows is None:
            return values
        rows = torch.from_numpy(self.rows)[None]
        return torch.sparse_coo_tensor(rows, values, self.size, is_coalesced=True, check_invariants=False)


@njit(nogil=True, cache=True)
def _distinct(tokens, size):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The distinct tokens, ascending, and the place of each token among them."""
    place = np.full(size, -1, np.int32)
    for token in tokens:
        place[token] = 0
    count = 0
    rows = np.empty(min(size, len(tokens)), np.int64)
    for token in range(size):
        if place[token] == 0:
            place[token] = count
            rows[count] = token
            count += 1
    places = np.empty(len(tokens), np.int32)
    for at in range(len(tokens)):
        places[at] = place[tokens[at]]
    return rows[:count], places
