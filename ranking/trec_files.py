"""Reads and writes TREC's two plain file formats, runs and judgements.

A run has six columns (topic, `Q0`, document, rank, score, tag), judgements ("qrels") have four (topic, an unused
iteration, document, grade). Both are separated by any blanks or tabs and may be gzip files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import polars as pl

from ranking.collections.faults import Faults
from ranking.collections.lines import tables
from ranking.errors import BadInput
from ranking.whole_file import replace_file

RUN: Mapping[str, pl.DataType] = {
    "query": pl.String(),
    "_q0": pl.String(),
    "document": pl.String(),
    "rank": pl.Int32(),
    "score": pl.Float64(),
    "tag": pl.String(),
}
QRELS: Mapping[str, pl.DataType] = {
    "query": pl.String(),
    "_iteration": pl.String(),
    "document": pl.String(),
    "grade": pl.Int32(),
}

BLANK = r"[ \t\n\x0B\f\r]"
"""A character that separates columns, for us and for trec_eval. A no-break space does not."""


def check_ids(ids: pl.Series, what: str, where: object = None) -> None:
    """Refuse ids that a TREC file can't hold, before any work is done.

    Args:
        ids: the ids to be written.
        what: what they name, for the message: query, document or tag.
        where: the input that they are from, or the option that needs a TREC file.

    Raises:
        BadInput: if an id is empty or has a blank in it.
    """
    wrong = ids.filter(ids.is_null() | (ids == "") | ids.str.contains(BLANK))
    if len(wrong):
        more = f" ({len(wrong):,} such ids)" if len(wrong) > 1 else ""
        fault = f"{what} {wrong[0]!r} has a blank in it" if wrong[0] else f"a {what} has no id"
        raise BadInput(f"{fault}{more}", where, "a TREC file can't hold it: rename it (a_b for a b)")


def write_run(file: str | os.PathLike[str] | IO[bytes], run: pl.DataFrame, where: object = None) -> None:
    """Write a run, one line per document: query, Q0, document, rank, score, tag.

    Args:
        file: a path, whose file is written whole, or a binary stream.
        run: query, document, rank, score, tag, in the order of the lines. Scores are written with as many digits as
            their type needs to be read back equal.
        where: the input or option to name if an id can't be written.

    Raises:
        BadInput: if an id or the tag is empty or has a blank in it. Nothing is written then.
    """
    for column in ("query", "document", "tag"):
        check_ids(run[column].unique(maintain_order=True), column, where)
    _write(file, run.select("query", pl.lit("Q0").alias("q0"), "document", "rank", "score", "tag"))


def write_qrels(file: str | os.PathLike[str] | IO[bytes], qrels: pl.DataFrame, where: object = None) -> None:
    """Write judgements, one line per document: query, 0, document, grade.

    Args:
        file: a path, whose file is written whole, or a binary stream.
        qrels: query, document, grade, in the order of the lines.
        where: the input or option to name if an id can't be written.

    Raises:
        BadInput: if an id is empty or has a blank in it. Nothing is written then.
    """
    for column in ("query", "document"):
        check_ids(qrels[column].unique(maintain_order=True), column, where)
    _write(file, qrels.select("query", pl.lit("0").alias("iteration"), "document", "grade"))


def _write(file: str | os.PathLike[str] | IO[bytes], table: pl.DataFrame) -> None:
    if not isinstance(file, (str, os.PathLike)):
        stream: Any = file
        table.write_csv(stream, separator=" ", include_header=False, quote_style="never")
        return
    with replace_file(file) as temporary:
        table.write_csv(temporary, separator=" ", include_header=False, quote_style="never")


def read_run(path: str | Path, strict: bool = True) -> pl.DataFrame:
    """Read what a retrieval system ranked.

    Args:
        path: a run file, plain or gzip, UTF-8.
        strict: raise on the first broken line; otherwise leave such lines out.

    Returns:
        query, document (String), rank (Int32), score (Float64), tag (String), in file order: by convention a run is
        ordered by its scores, not by its rank column, and who reads it decides.

    Raises:
        BadInput: a broken line or one in another encoding (when strict); a missing, empty or truncated file (always).
    """
    return _read(path, RUN, Faults(strict))


def read_qrels(
    path: str | Path, strict: bool = True, encoding: str = "utf-8", faults: Faults | None = None
) -> pl.DataFrame:
    """Read what assessors judged.

    Args:
        path: a qrels file, plain or gzip.
        strict: raise on the first broken line; otherwise leave such lines out.
        encoding: of the file.
        faults: hears of what is broken, and decides instead of `strict`.

    Returns:
        query, document (String), grade (Int32; above 0 is relevant), in file order.

    Raises:
        BadInput: as `read_run`.
    """
    return _read(path, QRELS, faults or Faults(strict), encoding)


def _read(
    path: str | Path, columns: Mapping[str, pl.DataType], faults: Faults, encoding: str = "utf-8"
) -> pl.DataFrame:
    frames = list(tables(path, columns, faults, encoding=encoding))
    if not sum(len(frame) for frame in frames):
        raise BadInput("no lines in it" if faults.strict else "no readable lines in it", path)
    return pl.concat(frames).drop("line")
