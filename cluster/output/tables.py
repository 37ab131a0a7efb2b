"""Reads and writes the parquet tables of an output folder; tables with rows of every query are read in pieces."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl
import polars.selectors as cs
import pyarrow as pa

from pyrite.cluster.config.secrets import concealed_in
from pyrite.cluster.output.storage import Storage
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.lazy import pyarrow
from pyrite.ranking.whole_file import as_parquet

GROUP = 250_000
"""Approximate number of rows that are in memory at once."""
IDS = ("query", "document", "query_id", "document_id")
"""Columns with a collection's ids."""
LATER = ("documents_read", "memory", "curve_dev_loss", "drawn")
"""Columns of trials.parquet that the first versions did not write."""


@dataclass(frozen=True)
class RunRows:
    """Rows of a table that are computed run by run on each use, and are never in memory together."""

    schema: pl.Schema
    frames: Callable[[], Iterable[pl.DataFrame]]  # the rows of one run after another; missing columns are null

    def groups(self) -> Iterator[pl.DataFrame]:
        """Yield the rows in order, about `GROUP` at a time."""
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
        """Return the rows as a lazy frame."""

        def source(
            columns: list[str] | None, predicate: pl.Expr | None, most: int | None, size: int | None
        ) -> Iterator[pl.DataFrame]:
            for group in self.groups():
                part = group if predicate is None else group.filter(predicate)
                part = part if columns is None else part.select(columns)
                yield part if most is None else part.head(most)
                if most is not None and (most := most - len(part)) <= 0:
                    return

        return pl.io.plugins.register_io_source(source, schema=self.schema)


def write_table(storage: Storage, name: str, table: pl.DataFrame | RunRows) -> None:
    """Write NAME.parquet, completely or not at all."""
    if isinstance(table, pl.DataFrame):
        storage.write(f"{name}.parquet", as_parquet(_concealed(table)))
        return

    schema = pl.DataFrame(schema=table.schema).to_arrow().schema
    with (
        storage.writing(f"{name}.parquet") as stream,
        pyarrow.parquet.ParquetWriter(stream, schema, compression="zstd") as writer,
    ):
        for group in table.groups():
            writer.write_table(_concealed(group).to_arrow())


def _concealed(table: pl.DataFrame) -> pl.DataFrame:
    """Return a table whose texts, but for ids, have no values of environment variables, and no credentials."""
    texts = cs.string() - cs.by_name(*IDS, require_all=False)
    known = {text: concealed_in(text, short=False) for column in table.select(texts) for text in column.unique()}
    hidden = {text: shown for text, shown in known.items() if shown != text}
    nested = {name: table[name].to_list() for name, kind in table.schema.items() if kind.is_nested()}
    if hidden:
        table = table.with_columns(texts.replace(hidden))
    for name, values in nested.items():
        if (shown := concealed_in(values, short=False)) != values:
            table = table.with_columns(pl.Series(name, shown, table.schema[name]))
    return table


def read_table(storage: Storage, name: str) -> pl.DataFrame | None:
    """Read the table NAME.parquet; None if it does not exist. A damaged one is refused."""
    content = storage.read(f"{name}.parquet")
    try:
        return None if content is None else pl.read_parquet(io.BytesIO(content))
    except pl.exceptions.PolarsError:
        raise _damaged(storage, name) from None


def scan_table(storage: Storage, name: str) -> pl.LazyFrame | None:
    """Return the table NAME.parquet as a lazy frame; None if it does not exist. A damaged one is refused."""
    file = f"{name}.parquet"
    if file not in storage.names():
        return None
    try:
        if storage.local:
            table = pl.scan_parquet(storage.path(file), glob=False)
        else:
            files = pyarrow.dataset.dataset(storage.path(file), filesystem=storage.files, format="parquet")
            table = pl.scan_pyarrow_dataset(files)
        table.collect_schema()
    except (pl.exceptions.PolarsError, pa.ArrowException, OSError):
        raise _damaged(storage, name) from None
    return table


def required_table(storage: Storage, name: str) -> pl.DataFrame:
    """Read a table that every finished study has; raise BadInput if it does not exist."""
    return _required(read_table(storage, name), storage, name)


def required_trials(storage: Storage) -> pl.DataFrame:
    """Read the table of a study's runs; raise BadInput if it does not exist, or an older version wrote it."""
    trials = required_table(storage, "trials")
    missing = [name for name in LATER if name not in trials.columns]
    what, again = "has no column {}: an older version of Pyrite wrote it", f"pyrite study --resume {storage.place}"
    refuse(missing, what, f"{storage.place}/trials.parquet", f"{again} writes it again")
    return trials


def required_scan(storage: Storage, name: str) -> pl.LazyFrame:
    """Return `scan_table` of a table that every finished study has; raise BadInput if it does not exist."""
    return _required(scan_table(storage, name), storage, name)


def _required(table: Any, storage: Storage, name: str) -> Any:
    if table is None:
        raise BadInput(f"there is no {name}.parquet", storage.place, "name the folder of a study that has ended")
    return table


def _damaged(storage: Storage, name: str) -> BadInput:
    remedy = "the command that wrote it, with --resume, writes it again"
    return BadInput("is damaged", f"{storage.place}/{name}.parquet", remedy)
