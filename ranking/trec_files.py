"""Reads and writes TREC's two plain file formats, runs and judgements.

A run has six columns (topic, `Q0`, document, rank, score, tag), judgements ("qrels") have four (topic, an iteration
that nobody uses, document, grade). Both are separated by any blanks or tabs and may be gzip files.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from ranking.collections.faults import Faults
from ranking.collections.lines import tables
from ranking.errors import BadInput

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
