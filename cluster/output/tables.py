"""Reads and writes the parquet tables of an output folder."""

from __future__ import annotations

import io

import polars as pl

from cluster.output.storage import Storage
from ranking.errors import BadInput


def as_parquet(table: pl.DataFrame) -> bytes:
    """A table as the bytes of a parquet file."""
    buffer = io.BytesIO()
    table.write_parquet(buffer)
    return buffer.getvalue()


def write_table(storage: Storage, name: str, table: pl.DataFrame) -> None:
    """Write NAME.parquet, whole or not at all."""
    storage.write(f"{name}.parquet", as_parquet(table))


def read_table(storage: Storage, name: str) -> pl.DataFrame | None:
    """The table NAME.parquet, None where there is none.

    Raises:
        BadInput: where it is damaged.
    """
    content = storage.read(f"{name}.parquet")
    try:
        return None if content is None else pl.read_parquet(io.BytesIO(content))
    except pl.exceptions.PolarsError:
        where = f"{storage.place}/{name}.parquet"
        raise BadInput("is damaged", where, "the command that wrote it, with --resume, writes it again") from None


def required_table(storage: Storage, name: str) -> pl.DataFrame:
    """The same of a table that every finished study has.

    Raises:
        BadInput: where it is damaged, or there is none.
    """
    table = read_table(storage, name)
    if table is None:
        raise BadInput(f"there is no {name}.parquet", storage.place, "name the folder of a study that has ended")
    return table
