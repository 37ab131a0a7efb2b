"""Keeps the documents of a collection in pieces: Arrow files by range of documents, each mapped when it is opened."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import polars as pl

from pyrite.ranking.collections.arrow_files import mapped, write

PIECE = 256 << 20
"""The approximate size of a piece in bytes: a collection with no more text than this is one piece."""
WHOLE = "documents.arrow"
"""The file of a collection of one piece."""

Run = Callable[[Callable[[int], None], int], None]
"""Runs a task for each number below a count, anywhere and in any order; results are written to files."""


def in_turn(task: Callable[[int], None], count: int) -> None:
    """Run a task for each number below `count` in this process."""
    for number in range(count):
        task(number)


def piece_file(number: int) -> str:
    """Return the name of a piece's file."""
    return f"documents-{number:05d}.arrow"


def write_pieces(folder: Path, schema: Mapping[str, pl.DataType], chunks: Iterable[pl.DataFrame]) -> None:
    """Write documents as they come into as many pieces as they need; a single one is called `WHOLE`."""
    waiting = iter(chunks)
    frame = next(waiting, None)

    def piece() -> Iterator[pl.DataFrame]:
        nonlocal frame
        size = 0
        while frame is not None and size < PIECE:
            yield frame
            size += int(frame["text"].str.len_bytes().sum())
            frame = next(waiting, None)

    number = 0
    while number == 0 or frame is not None:
        write(folder / piece_file(number), schema, piece())
        number += 1
    if number == 1:
        (folder / piece_file(0)).rename(folder / WHOLE)


def piece_files(folder: Path) -> list[Path]:
    """Return the files of a collection's documents, in order."""
    whole = folder / WHOLE
    return [whole] if whole.exists() else sorted(folder.glob("documents-*.arrow"))


def mapped_pieces(files: Iterable[Path]) -> pl.DataFrame:
    """Return the documents of several pieces as one frame, without reading them.

    Raises:
        OSError, pa.ArrowInvalid: if one is missing or not whole.
    """
    frames = [mapped(file) for file in files]
    if not frames:
        raise FileNotFoundError("no documents")
    return pl.concat(frames, rechunk=False)
