"""Divides large files by spans of bytes, and many files into groups, which tasks write as pieces in parallel."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from ranking.collections import checks
from ranking.collections.arrow_files import write
from ranking.collections.faults import Faults
from ranking.collections.opened import compression_of
from ranking.collections.pieces import piece_file
from ranking.collections.reader import Portion, Reader, Span


def spans_of(file: Path, size: int) -> list[Span]:
    """Return spans of about `size` bytes that contain each line once; none for a packed or missing file."""
    if not file.is_file() or compression_of(file):
        return []
    total = file.stat().st_size
    count = max(1, -(-total // size))
    bounds = [total * number // count for number in range(count + 1)]
    return [Span(bounds[number], bounds[number + 1]) for number in range(count)]


def groups_of(files: Sequence[Path], size: int) -> list[tuple[Path, ...]]:
    """Group files in their order, so that each group except the last has `size` bytes or more."""
    groups: list[list[Path]] = [[]]
    total = 0
    for file in files:
        if total >= size:
            groups.append([])
            total = 0
        groups[-1].append(file)
        total += file.stat().st_size
    return [tuple(group) for group in groups]


def portion_to_piece(
    reader: Reader, portions: Sequence[Portion], folder: Path, schema: dict[str, pl.DataType], number: int
) -> None:
    """Write the documents of a portion as a piece, and its ids' hashes and skipped faults next to it."""
    faults, hashes = Faults(strict=False), [np.empty(0, np.uint64)]
    read = reader.read_portion(portions[number], faults)
    write(folder / piece_file(number), schema, checks.documents_with_text(read, faults, hashes))
    np.save(folder / f"hashes-{number:05d}.npy", np.concatenate(hashes), allow_pickle=False)
    (folder / f"skipped-{number:05d}.json").write_text(json.dumps(faults.skipped))


def collected(folder: Path, count: int) -> tuple[np.ndarray, bool]:
    """Return the hashes of all ids, and whether anything was skipped; remove the files next to the pieces."""
    hashes, skipped = [], False
    for number in range(count):
        file_of_hashes, file_of_skipped = folder / f"hashes-{number:05d}.npy", folder / f"skipped-{number:05d}.json"
        hashes.append(np.load(file_of_hashes, allow_pickle=False))
        skipped |= bool(json.loads(file_of_skipped.read_text()))
        file_of_hashes.unlink()
        file_of_skipped.unlink()
    return np.concatenate(hashes), skipped
