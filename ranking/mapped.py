"""Maps arrays from files, so that many processes share them and none reads them whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from pyrite.ranking.errors import BadInput
from pyrite.ranking.whole_file import replace_file


class MappedArray(np.ndarray[Any, Any]):
    """An array in a .npy file. Another process receives it as the file's name, and slices of it as numbers.

    Args:
        file: the array's file. None for an array derived from it.
    """

    file: Path | None = None

    def __array_finalize__(self, other: Any) -> None:
        self.file = None

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self.file is not None:
            return open_array, (self.file,)
        return np.asarray(self).__reduce_ex__(protocol)


def open_array(file: Path) -> MappedArray:
    """Open the array in a file.

    Raises:
        BadInput: if the file is not on this machine, or is not whole.
    """
    try:
        try:
            read = np.load(file, mmap_mode="r", allow_pickle=False)
        except ValueError:  # an empty file can't be mapped
            read = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        remedy = "put cache= where all machines see it (a shared disk), or delete it to have it made again"
        raise BadInput("can't be read on this machine", file, remedy) from None
    array: MappedArray = np.asarray(read).view(MappedArray)
    array.file = file
    return array


def write_array(file: Path, array: NDArray[Any]) -> None:
    """Write an array into a file, which is replaced whole."""
    with replace_file(file) as temporary, temporary.open("wb") as opened:
        npy.write_array(opened, array, allow_pickle=False)
