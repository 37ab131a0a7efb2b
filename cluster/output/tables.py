"""Reads and writes the parquet tables of an output folder; those with rows of every query pass through in pieces."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from cluster.output.storage import Storage
from ranking.errors import BadInput

GROUP = 250_000
"""Rows of a table that are in memory at once, about."""


@dataclass(frozen=True)
class RunRows:
    """Rows of a table that are made run by run, each time they are asked for, and are never in memory together.

    Args:
        schema: of the table.
        frames: makes the rows of one run after another; columns that a run lacks are null.
    """

    schema: pl.Schema
    frames: Callable[[], Iterable[pl.DataFrame]]

    def groups(self) -> Iterator[pl.DataFrame]:
        """The rows in order, `GROUP` or a little more at a time."""
        empty = pl.DataFrame(schema=self.schema)
        waiting, rows = [empty], 0
        for frame in self.frames():
            waiting.append(frame)
            rows += len(frame)
            if rows >= GROUP:
                yield pl.concat(waiting, how="diagonal")
                waiting, rows = [empty], 0
        if rows:
            yield pl.concat(waiting, how="diagonal")

    def lazy(self) -> pl.LazyFrame:
        """As a frame that is not collected."""
        from polars.io.plugins import register_io_source

        def source(
            columns: list[str] | None, predicate: pl.Expr | None, most: int | None, size: int | None
        ) -> Iterator[pl.DataFrame]:
            for group in self.groups():
                part = group if predicate is None else group.filter(predicate)
                part = part if columns is None else part.select(columns)
                yield part if most is None else part.head(most)
                if most is not None and (most := most - len(part)) <= 0:
                    return

        return register_io_source(source, schema=self.schema)


def batches(table: pl.DataFrame | pl.LazyFrame) -> Iterator[pl.DataFrame]:
    """The rows of a table in order, some at a time."""
    return table.lazy().collect_batches(maintain_order=True, engine="streaming")


def as_parquet(table: pl.DataFrame, group: int | None = None) -> bytes:
    """A table as the bytes of a parquet file.

    Args:
        table: its rows.
        group: rows that are written at once, and read at once by who streams; None leaves it to Polars.
    """
    buffer = io.BytesIO()
    table.write_parquet(buffer, row_group_size=group)
    return buffer.getvalue()


def write_table(storage: Storage, name: str, table: pl.DataFrame | RunRows) -> None:
    """Write NAME.parquet, whole or not at all."""
    if isinstance(table, pl.DataFrame):
        storage.write(f"{name}.parquet", as_parquet(table))
        return
    from pyarrow import parquet

    schema = pl.DataFrame(schema=table.schema).to_arrow().schema
    with (
        storage.writing(f"{name}.parquet") as stream,
        parquet.ParquetWriter(stream, schema, compression="zstd") as writer,
    ):
        for group in table.groups():
            writer.write_table(group.to_arrow())


def read_table(storage: Storage, name: str) -> pl.DataFrame | None:
    """The table NAME.parquet, None where there is none.

    Raises:
        BadInput: where it is damaged.
    """
    content = storage.read(f"{name}.parquet")
    try:
        return None if content is None else pl.read_parquet(io.BytesIO(content))
    except pl.exceptions.PolarsError:
        raise _damaged(storage, name) from None


def scan_table(storage: Storage, name: str) -> pl.LazyFrame | None:
    """The table NAME.parquet, of which only what is asked for is read; None where there is none.

    Raises:
        BadInput: where it is damaged.
    """
    file = f"{name}.parquet"
    if file not in storage.names():
        return None
    try:
        if storage.local:
            found = pl.scan_parquet(storage.path(file))
        else:
            from pyarrow import dataset

            found = pl.scan_pyarrow_dataset(
                dataset.dataset(storage.path(file), filesystem=storage.files, format="parquet")
            )
        found.collect_schema()
    except (pl.exceptions.PolarsError, pa.ArrowException, OSError):
        raise _damaged(storage, name) from None
    return found


def required_table(storage: Storage, name: str) -> pl.DataFrame:
    """The same of a table that every finished study has.

    Raises:
        BadInput: where it is damaged, or there is none.
    """
    table = read_table(storage, name)
    if table is None:
        raise _missing(storage, name)
    return table


def required_scan(storage: Storage, name: str) -> pl.LazyFrame:
    """`scan_table` of one that every finished study has.

    Raises:
        BadInput: where it is damaged, or there is none.
    """
    table = scan_table(storage, name)
    if table is None:
        raise _missing(storage, name)
    return table


def _damaged(storage: Storage, name: str) -> BadInput:
    remedy = "the command that wrote it, with --resume, writes it again"
    return BadInput("is damaged", f"{storage.place}/{name}.parquet", remedy)


def _missing(storage: Storage, name: str) -> BadInput:
    return BadInput(f"there is no {name}.parquet", storage.place, "name the folder of a study that has ended")
