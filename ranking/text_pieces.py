"""Encodes the documents of a collection piece by piece into flat arrays on disk, which are mapped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from ranking.backing import at_hand, withdraw
from ranking.collections.arrow_files import mapped
from ranking.collections.pieces import Run
from ranking.mapped import join_arrays, open_array, write_array
from ranking.texts import Texts

Encode = Callable[[pl.DataFrame], Texts]
"""Token ids of the texts of a frame."""


@dataclass(frozen=True)
class EncodePiece:
    """Encodes a piece into two files, unless they are there from before an interrupt.

    Args:
        pieces: of the collection.
        folder: of the files.
        make: makes what encodes.
    """

    pieces: tuple[Path, ...]
    folder: Path
    make: Callable[[], Encode]

    def __call__(self, number: int) -> None:
        tokens, lengths = _files(self.folder, number)
        if at_hand(lengths):
            return
        found = self.make()(mapped(self.pieces[number]))
        write_array(tokens, found.tokens)
        write_array(lengths, found.lengths)


def encode_pieces(pieces: tuple[Path, ...], folder: Path, make: Callable[[], Encode], run: Run) -> Texts:
    """The texts of all documents, mapped.

    Pieces that are encoded stay where this is interrupted; the next call goes on with the others.

    Args:
        pieces: files of the documents.
        folder: gets `tokens.npy` and `offsets.npy`.
        make: makes what encodes a frame of documents; called in each task.
        run: does the tasks.
    """
    folder.mkdir(parents=True, exist_ok=True)
    joined = folder / "tokens.npy", folder / "offsets.npy"
    if not at_hand(joined[1]):
        run(EncodePiece(pieces, folder, make), len(pieces))
        files = [_files(folder, number) for number in range(len(pieces))]
        lengths = np.concatenate([open_array(file) for _, file in files])
        join_arrays(joined[0], [file for file, _ in files])
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        write_array(joined[1], offsets)
        for file in (file for pair in files for file in pair):
            withdraw(file)
    return Texts(open_array(joined[0]), open_array(joined[1]))


def _files(folder: Path, number: int) -> tuple[Path, Path]:
    return folder / f"tokens-{number:05d}.npy", folder / f"lengths-{number:05d}.npy"
