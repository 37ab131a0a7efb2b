"""Encodes the documents of a collection piece by piece into files of token ids, which are mapped."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pyrite.ranking.collections.arrow_files import mapped
from pyrite.ranking.collections.pieces import Run
from pyrite.ranking.mapped import open_array, write_array
from pyrite.ranking.pieced_array import PiecedArray
from pyrite.ranking.texts import Texts

Encode = Callable[[pl.DataFrame], Texts]
"""Returns the token ids of the texts of a frame."""


def encode_piece(pieces: tuple[Path, ...], folder: Path, make: Callable[[], Encode], number: int) -> None:
    """Encode a piece into two files, unless they exist from before an interrupt."""
    tokens, lengths = _files(folder, number)
    if lengths.exists():
        return
    texts = make()(mapped(pieces[number]))
    write_array(tokens, texts.tokens)
    write_array(lengths, texts.lengths)


def encode_pieces(pieces: tuple[Path, ...], folder: Path, make: Callable[[], Encode], run: Run) -> Texts:
    """Return the texts of all documents, mapped: token ids in one file per piece.

    Encoded pieces are kept if this is interrupted; the next call continues with the others.

    Args:
        folder: the folder for `tokens-N.npy` of each piece, `offsets.npy` of all, and finally `starts.npy`.
        make: makes the function that encodes a frame of documents; called in each task.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = [_files(folder, number) for number in range(len(pieces))]
    offsets, starts = folder / "offsets.npy", folder / "starts.npy"
    if not starts.exists():
        run(partial(encode_piece, pieces, folder, make), len(pieces))
        lengths = [open_array(file) for _, file in files]
        ends = np.cumsum(np.concatenate(lengths), dtype=np.int64)
        write_array(offsets, np.concatenate([np.zeros(1, np.int64), ends]))
        write_array(starts, np.cumsum([0, *(length.sum() for length in lengths)], dtype=np.int64))
        for _, file in files:
            file.unlink(missing_ok=True)
    tokens: Any = PiecedArray(tuple(file for file, _ in files), np.asarray(open_array(starts)))
    return Texts(tokens, open_array(offsets))


def _files(folder: Path, number: int) -> tuple[Path, Path]:
    return folder / f"tokens-{number:05d}.npy", folder / f"lengths-{number:05d}.npy"
