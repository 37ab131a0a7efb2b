"""Reads an array that lies in several files as if it were one, and opens a file when something of it is asked for.

So a machine that works on some documents of a large collection fetches the files of those, and no others.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranking.backing import BackedPath
from ranking.mapped import open_array


class PiecedArray:
    """int32 [n], cut into files. It goes to another process, or into a state, as the files' names.

    It can be indexed by a slice or by positions, which gives a plain array, and has a length; `np.asarray` reads all.

    Args:
        files: .npy files, in their order, at least one.
        starts: int64 [files + 1], where each begins, and the length of all.

    Raises:
        BadInput: where a file is not on this machine; of a backing it is fetched when it is first asked for.
    """

    def __init__(self, files: tuple[Path, ...], starts: NDArray[np.int64]) -> None:
        self.files, self.starts = files, starts
        self._opened: dict[int, NDArray[Any]] = {}
        for number, file in enumerate(files):
            if not isinstance(file, BackedPath):
                self._piece(number)

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
            parts = [self._piece(n)[max(start - self.starts[n], 0) : max(stop - self.starts[n], 0)]
                     for n in range(first, last + 1)]  # fmt: skip
            return (parts[0] if len(parts) == 1 else np.concatenate(parts))[::step]
        positions = np.asarray(key)
        found = np.empty(positions.shape, np.int32)
        flat = positions.ravel()
        for places, part, start in self.parts(flat):
            found.ravel()[places] = part[flat[places] - start]
        return found

    def parts(self, positions: NDArray[np.integer]) -> Iterator[tuple[NDArray[np.intp] | slice, NDArray[Any], int]]:
        """The files that hold some positions [n].

        Yields:
            Which of the positions are in a file, its array, and where that begins.
        """
        if not len(positions):
            return
        first, last = self._holding(np.array([positions.min(), positions.max()]))
        if first == last:  # as of most blocks of documents
            yield slice(None), self._piece(first), int(self.starts[first])
            return
        numbers = self._holding(positions)
        order = np.argsort(numbers, kind="stable")
        held, firsts = np.unique(numbers[order], return_index=True)
        for number, places in zip(held, np.split(order, firsts[1:]), strict=True):
            yield places, self._piece(number), int(self.starts[number])

    def _holding(self, positions: NDArray[np.integer]) -> NDArray[np.int32]:
        """The file of each position; the last one of what lies behind all."""
        numbers = np.searchsorted(self.starts, positions, side="right") - 1
        return np.minimum(numbers, len(self.files) - 1).astype(np.int32)

    def _piece(self, number: int) -> NDArray[Any]:
        if number not in self._opened:
            self._opened[number] = open_array(self.files[number])
        return self._opened[number]
