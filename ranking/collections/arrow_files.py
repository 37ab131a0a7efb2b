"""Writes frames as Arrow files and maps them into memory, so that processes share their pages."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import polars as pl
import pyarrow as pa

from pyrite.ranking.whole_file import replace_file

WRITTEN = 250_000
"""Rows that are written at once: two copies of them are made."""


def write(path: Path, schema: Mapping[str, pl.DataType], chunks: Iterable[pl.DataFrame]) -> None:
    """Write chunks, which may come from a generator, as the record batches of one file."""
    with (
        pa.OSFile(str(path), "wb") as file,
        pa.ipc.new_file(file, _arrow(pl.DataFrame(schema=schema)).schema) as writer,
    ):
        for part in itertools.chain.from_iterable(chunk.iter_slices(WRITTEN) for chunk in chunks):
            writer.write_table(_arrow(part.select(pl.col(name).cast(dtype) for name, dtype in schema.items())))


def write_whole(path: Path, schema: Mapping[str, pl.DataType], chunks: Iterable[pl.DataFrame]) -> None:
    """Write chunks into a file, which is replaced whole."""
    with replace_file(path) as temporary:
        write(temporary, schema, chunks)


def batches(path: Path, rows: int) -> Iterator[pl.DataFrame]:
    """Yield the rows of a file in frames of about `rows` rows, without mapping it."""
    with pa.OSFile(str(path)) as file:
        reader = pa.ipc.open_file(file)
        held: list[pa.RecordBatch] = []
        for number in range(reader.num_record_batches):
            held.append(reader.get_batch(number))
            if sum(map(len, held)) >= rows or number == reader.num_record_batches - 1:
                yield pl.DataFrame(pl.from_arrow(pa.Table.from_batches(held)))
                held = []


def mapped(path: Path) -> pl.DataFrame:
    """Map the frame in a file, without a copy. It can still be used after the file is deleted or replaced.

    Raises:
        OSError, pa.ArrowInvalid: if there is no such file, or it is not whole.
    """
    # polars' read_ipc reads the whole file into memory since its version 2.
    table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    return pl.DataFrame(pl.from_arrow(table, rechunk=False))


def _arrow(frame: pl.DataFrame) -> pa.Table:
    # String views can be mapped without a copy. They are made from the older layout, because views of rows cut out of
    # a block of text would keep the whole block in the file.
    packed = pl.DataFrame(pl.from_arrow(frame.to_arrow(compat_level=pl.CompatLevel.oldest())))
    return packed.to_arrow(compat_level=pl.CompatLevel.newest())
