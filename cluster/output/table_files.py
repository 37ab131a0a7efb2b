"""Writes a table into a file whose name specifies the form."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Mapping
from pathlib import Path

import polars as pl

from pyrite.ranking.errors import refuse
from pyrite.ranking.whole_file import replace_file


def _parquet(table: pl.DataFrame) -> bytes:
    content = io.BytesIO()
    table.write_parquet(content)
    return content.getvalue()


FORMS: Mapping[str, Callable[[pl.DataFrame], bytes]] = {
    ".csv": lambda table: table.write_csv().encode(),
    ".tsv": lambda table: table.write_csv(separator="\t").encode(),
    ".json": lambda table: table.write_json().encode(),
    ".jsonl": lambda table: table.write_ndjson().encode(),
    ".parquet": _parquet,
}
"""The forms of a table by the endings of names."""


def check_table_file(path: Path) -> str:
    """Return the form that a file's name specifies, before anything is computed.

    Raises:
        BadInput: if the name specifies none, or the file already exists.
    """
    form = Path(path.stem if path.suffix == ".gz" else path.name).suffix.lower()
    refuse(
        form not in FORMS,
        f"a table is not written as {form or path.name!r}",
        path,
        f"name it {', '.join(FORMS)}, also with .gz",
    )
    refuse(path.exists(), "already exists", path, "choose another out=, or delete it")
    return form


def write_table(path: Path, table: pl.DataFrame) -> None:
    """Write a table in the form of a file's name, whole."""
    content = FORMS[check_table_file(path)](table)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(path) as temporary:
        temporary.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
