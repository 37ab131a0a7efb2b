"""Finds documents by their ids in a sorted table on disk, of which a search touches a few pages."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pyrite.ranking.collections.arrow_files import mapped, write
from pyrite.ranking.collections.pieces import Run

SCHEMA = {"id": pl.String(), "row": pl.UInt32()}
SAMPLED = 1000
"""Ids of each piece that are sampled to divide the table into parts."""


@dataclass(frozen=True)
class IdTable:
    """All ids in ascending byte order, and the row of each.

    Args:
        files: its parts, in order; opened when the first id is looked up.
    """

    files: tuple[Path, ...]

    @cached_property
    def table(self) -> pl.DataFrame:
        """Id and row, mapped.

        Raises:
            OSError, pa.ArrowInvalid, BadInput: see `pyrite.ranking.collections.arrow_files.mapped`.
        """
        return pl.concat([mapped(file) for file in self.files], rechunk=False)

    def rows_of(self, ids: pl.Series) -> pl.Series:
        """Return the row of each id (UInt32), null if there is no such document."""
        if not len(self.table) or not len(ids):
            return pl.Series("row", [None] * len(ids), pl.UInt32)
        places = self.table["id"].search_sorted(ids).clip(0, len(self.table) - 1)
        rows = self.table[places.to_numpy()]
        return pl.select(pl.when(rows["id"] == ids).then(rows["row"])).to_series().alias("row")

    def keys(self) -> NDArray[np.int32]:
        """Return the rank of each document's id, from 1, in the order of documents."""
        keys = np.empty(len(self.table), np.int32)
        done = 0
        for part in self.table.iter_slices(1 << 20):
            keys[part["row"].to_numpy()] = np.arange(done + 1, done + len(part) + 1, dtype=np.int32)
            done += len(part)
        return keys


def sort_ids(pieces: list[Path], starts: list[int], folder: Path, number: int) -> None:
    """Sort the ids of a piece; `starts` has the first row of each."""
    ids = mapped(pieces[number]).select("id").with_row_index("row", starts[number]).sort("id")
    write(folder / f"run-{number:05d}.arrow", SCHEMA, [ids.select("id", "row")])


def merge_ids(runs: list[Path], bounds: list[str], folder: Path, number: int) -> None:
    """Merge one range of the sorted ids of all pieces: `bounds` has the first id of each but the first."""
    parts = []
    for file in runs:
        run = mapped(file)
        start = 0 if number == 0 else _before(run, bounds[number])
        stop = len(run) if number + 1 == len(bounds) else _before(run, bounds[number + 1])
        parts.append(run.slice(start, max(0, stop - start)))
    write(folder / f"ids-{number:05d}.arrow", SCHEMA, [pl.concat(parts).sort("id")])


def _before(run: pl.DataFrame, bound: str) -> int:
    """Return the number of ids of a sorted run that come before a bound."""
    return int(run["id"].search_sorted(pl.Series([bound]), side="left")[0])


def _sampled(ids: pl.Series) -> pl.Series:
    """Return some ids of a sorted run, at equal distances."""
    return ids.gather(np.linspace(0, len(ids) - 1, min(len(ids), SAMPLED)).astype(np.uint32))


def write_ids(folder: Path, pieces: list[Path], run: Run) -> None:
    """Write the table of a collection in several pieces: each is sorted, then parts of all are merged."""
    lengths = [len(mapped(piece)) for piece in pieces]
    starts = [0, *itertools.accumulate(lengths[:-1])]
    run(partial(sort_ids, pieces, starts, folder), len(pieces))
    runs = [folder / f"run-{number:05d}.arrow" for number in range(len(pieces))]
    sample = pl.concat([_sampled(mapped(file)["id"]) for file in runs]).sort()
    cuts = np.arange(len(pieces)) * len(sample) // len(pieces)
    bounds = sample.gather(cuts).unique().sort().to_list()
    run(partial(merge_ids, runs, bounds, folder), len(bounds))
    for file in runs:
        file.unlink()


def id_files(folder: Path) -> list[Path]:
    """Return the files of a collection's table; none for one piece, whose ids are looked up in memory."""
    return sorted(folder.glob("ids-*.arrow"))
