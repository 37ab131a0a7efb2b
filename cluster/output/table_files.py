"""Writes a table into a file whose name specifies the form."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from pyrite.cluster.output.storage import unwritable
from pyrite.ranking.errors import refuse
from pyrite.ranking.whole_file import FULL, as_parquet, replace_file

FORMS: Mapping[str, Callable[[pl.DataFrame], bytes]] = {
    ".csv": lambda table: table.write_csv().encode(),
    ".tsv": lambda table: table.write_csv(separator="\t").encode(),
    ".json": lambda table: table.write_json().encode(),
    ".jsonl": lambda table: table.write_ndjson().encode(),
    ".parquet": as_parquet,
}
"""The forms of a table by the endings of names."""


def check_table_file(path: Path) -> str:
    """Return the form that a file's name specifies, before anything is computed.

    Raises:
        BadInput: if the name specifies none, the file already exists, or it can't be written.
    """
    form = Path(path.stem if path.suffix == ".gz" else path.name).suffix.lower()
    refuse(
        form not in FORMS,
        f"a table is not written as {form or path.name!r}",
        path,
        f"name it {', '.join(FORMS)}, also with .gz",
    )
    with _writing(path):
        refuse(path.exists(), "already exists", path, "choose another out=, or delete it")
        folder = next(folder for folder in path.parents if folder.exists())
        with tempfile.TemporaryDirectory(dir=folder) as trial, replace_file(Path(trial, path.name)) as temporary:
            temporary.touch()  # permissions are not enough to know: root has all of them in /proc
    return form


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Refuse a file that can't be written; an error of a full disk stays, for its message is the command's."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise
        raise unwritable(error, path, "choose another out=") from None


def write_table_file(path: Path, table: pl.DataFrame) -> None:
    """Write a table in the form of a file's name, whole."""
    content = FORMS[check_table_file(path)](table)
    with _writing(path), replace_file(path) as temporary:
        temporary.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
