"""Writes exported judgements in the form that the suffix of the file names."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import polars as pl

from pyrite.ranking import trec_files
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.whole_file import as_parquet, replace_file

PACKED: Mapping[str, Callable[[bytes], bytes]] = {
    ".gz": partial(gzip.compress, mtime=0), ".bz2": bz2.compress, ".xz": lzma.compress,
}  # fmt: skip
TABLE = ".csv"
"""The ending of a table of all judgements, with assessors, times and notes."""
_TREC = re.compile(r"|\.(txt|qrels?|trec|test|train|dev|\d+)")


def trec_lines(rows: pl.DataFrame) -> bytes:
    """Return judgements (topic, document, grade) as TREC's lines."""
    content = io.BytesIO()
    trec_files.write_qrels(content, rows.rename({"topic": "query"}))
    return content.getvalue()


def _json(rows: pl.DataFrame) -> bytes:
    by_topic: dict[str, dict[str, int]] = {}
    for topic, document, grade in rows.iter_rows():
        by_topic.setdefault(topic, {})[document] = grade
    return json.dumps(by_topic, ensure_ascii=False, indent=1).encode()


def _lines(rows: pl.DataFrame) -> bytes:
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows.iter_rows(named=True)).encode()


FORMS: Mapping[str, Callable[[pl.DataFrame], bytes]] = {
    ".json": _json,  # {topic: {document: grade}}
    ".jsonl": _lines,
    ".tsv": lambda rows: rows.write_csv(separator="\t", quote_style="never").encode(),
    ".parquet": as_parquet,
}
"""The forms of judgements (topic, document, grade) by the endings of names. All others are TREC's lines."""


def ending_of(path: Path) -> tuple[str, str]:
    """Return the ending of a file's name, which is its form, and that of its compression; each may be empty.

    Raises:
        BadInput: if nothing is written in that form.
    """
    packed = path.suffix.lower() if path.suffix.lower() in PACKED else ""
    form = Path(path.stem if packed else path.name).suffix.lower()
    refuse(
        form not in {*FORMS, TABLE} and not _TREC.fullmatch(form),
        f"judgements are not written as {form}",
        path,
        f"name it .txt (TREC), {', '.join(FORMS)}, or {TABLE} for a table with assessors; each may end in .gz",
    )
    return form, packed


def write(path: Path, rows: pl.DataFrame | str) -> Path:
    """Write judgements (topic, document, grade) in the form of a file's name, or a text as it is, whole."""
    form, packed = ending_of(path)
    content = rows.encode() if isinstance(rows, str) else FORMS.get(form, trec_lines)(rows)
    try:
        with replace_file(path) as temporary:
            temporary.write_bytes(PACKED[packed](content) if packed else content)
    except OSError as error:
        raise BadInput(f"can't be written ({error.strerror})", path) from None
    return path
