"""Reads an array in several files as if it were one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.mapped import open_array


class PiecedArray:
    """An int32 [n] array, cut into files. Another process, or a state, receives it as the files' names.

    It can be indexed by a slice or by positions, which returns a plain array, and has a length; `np.asarray` reads all.

    Args:
        files: .npy files, in their order, at least one.
        starts: int64 [files + 1], the start of each, and the length of all.

    Raises:
        BadInput: if a file is not on this machine, or is not whole.
    """

    def __init__(self, files: tuple[Path, ...], starts: NDArray[np.int64]) -> None:
        self.files, self.starts = files, starts
        self._pieces: list[NDArray[Any]] = [open_array(file) for file in files]

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __reduce__(self) -> tuple[object, ...]:
        return (PiecedArray, (self.files, self.starts))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("an array in several files is copied into one")
        return self[:].astype(dtype) if dtype is not None else self[:]

    def __getitem__(self, key: slice | NDArray[np.integer]) -> NDArray[Any]:
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step < 1:
                raise ValueError("an array in several files is read forwards")
            first, last = self._holding(np.array([start, max(stop - 1, start)]))
            parts = [self._pieces[n][max(start - self.starts[n], 0) : max(stop - self.starts[n], 0)]
                     for n in range(first, last + 1)]  # fmt: skip
            return (parts[0] if len(parts) == 1 else np.concatenate(parts))[::step]
        positions = np.asarray(key)
        values = np.empty(positions.shape, np.int32)
        flat = positions.ravel()
        for places, part, start in self.parts(flat):
            values.ravel()[places] = part[flat[places] - start]
        return values

    def parts(self, positions: NDArray[np.integer]) -> Iterator[tuple[NDArray[np.intp] | slice, NDArray[Any], int]]:
        """Yield the files that hold some positions [n].

        Yields:
            The indices of the positions that are in a file, its array, and its start.
        """
        if not len(positions):
            return
        first, last = self._holding(np.array([positions.min(), positions.max()]))
        if first == last:  # as for most blocks of documents
            yield slice(None), self._pieces[first], int(self.starts[first])
            return
        numbers = self._holding(positions)
        order = np.argsort(numbers, kind="stable")
        held, firsts = np.unique(numbers[order], return_index=True)
        for number, places in zip(held, np.split(order, firsts[1:]), strict=True):
            yield places, self._pieces[number], int(self.starts[number])

    def _holding(self, positions: NDArray[np.integer]) -> NDArray[np.int32]:
        """Return the file of each position; the last file for positions beyond the end."""
        numbers = np.searchsorted(self.starts, positions, side="right") - 1
        return np.minimum(numbers, len(self.files) - 1).astype(np.int32)
