"""Reads and writes TREC's two plain file formats, runs and judgements.

A run has six columns (topic, `Q0`, document, rank, score, tag), judgements ("qrels") have four (topic, an unused
iteration, document, grade). Both are separated by any blanks or tabs and may be gzip files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pyrite.ranking.collections.checks import MERGED, merged_grade
from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.collections.judgement_files import QRELS, READ_QRELS, READ_RUN, RUN, qrels_rows, run_rows
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.whole_file import replace_file

if TYPE_CHECKING:
    from pyrite.ranking.collections.collection import Collection

__all__ = [
    "JUDGED", "QRELS", "RUN", "check_collection", "check_ids", "judged_name", "read_qrels", "read_run", "write_qrels",
    "write_run",
]  # fmt: skip

JUDGED = ".qrels"
"""The ending of judgements that are written beside a run. Such a file in a folder of runs is none of them."""
Repeated = Literal["max", "mean", "stop"]
"""The grade that counts if a document is judged more than once for a query."""
CHECKED = 1 << 20
"""Document ids that are checked together."""
BLANK = r"[ \t\n\x0B\f\r]"
"""A character that separates columns, for us and for trec_eval. A no-break space does not."""


def judged_name(run: str) -> str:
    """Return the name of the judgements next to a run of this name or path.

    >>> judged_name("runs/bm25.run.gz")
    'runs/bm25.qrels'
    """
    return re.sub(r"(\.run|\.trec|\.txt)?(\.gz)?$", JUDGED, run, count=1)


def check_ids(ids: pl.Series, what: str, where: str | os.PathLike[str] | None = None) -> None:
    """Refuse ids that a TREC file can't hold, before any work is done.

    Args:
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


def check_collection(collection: Collection, queries: NDArray[np.integer]) -> None:
    """Refuse ids of documents and of some queries that a TREC file can't hold (see `check_ids`)."""
    check_ids(collection.queries["id"].gather(np.asarray(queries).astype(np.uint32)), "query", collection.name)
    for start in range(0, collection.size, CHECKED):
        rows = np.arange(start, min(start + CHECKED, collection.size))
        check_ids(collection.gather("id", rows), "document", collection.name)


def write_run(
    file: str | os.PathLike[str] | IO[bytes], run: pl.DataFrame, where: str | os.PathLike[str] | None = None
) -> None:
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


def write_qrels(
    file: str | os.PathLike[str] | IO[bytes], qrels: pl.DataFrame, where: str | os.PathLike[str] | None = None
) -> None:
    """Write judgements, one line per document: query, 0, document, grade.

    Args:
        qrels: query, document, grade, in the order of the lines.

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


def read_run(path: str | Path, encoding: str = "utf-8", faults: Faults | None = None) -> pl.DataFrame:
    """Read a run of a retrieval system.

    Args:
        path: a run file, in any form of `pyrite.ranking.collections.judgement_files.run_rows`.
        faults: receives broken lines. None raises on the first.

    Returns:
        query, document (String), rank (Int32), score (Float64), tag (String), in the order of the file: by convention
        a run is ordered by its scores, not by its rank column, and the caller decides.

    Raises:
        BadInput: if a line is broken or in another encoding (when strict), or the file is missing, empty or truncated.
    """
    faults = faults or Faults()
    return _joined(path, run_rows(path, faults, encoding), READ_RUN, faults)


def read_qrels(
    path: str | Path, encoding: str = "utf-8", faults: Faults | None = None, repeated: Repeated = "max"
) -> pl.DataFrame:
    """Read judgements.

    Args:
        path: a qrels file, in any form of `pyrite.ranking.collections.judgement_files.qrels_rows`.
        faults: receives broken lines, and counts repeated judgements. None raises on the first broken line.
        repeated: the grade that counts if a document is judged more than once for a query, as for subtopics: the
            highest (`max`), the mean, rounded (halves up), or none, and the file is refused (`stop`).

    Returns:
        query, document (String), grade (Int32; above 0 is relevant, -1 is pooled and not judged), in the order of the
        file, each document once per query.

    Raises:
        BadInput: if a line is broken or in another encoding (when strict), the file is missing, empty or truncated, or
            a judgement is repeated (`stop`).
    """
    faults = faults or Faults()
    rows = _joined(path, qrels_rows(path, faults, encoding), {**READ_QRELS, "line": pl.Int64}, faults)
    return graded_once(rows, path, faults, repeated)


def graded_once(rows: pl.DataFrame, where: str | Path, faults: Faults, repeated: Repeated) -> pl.DataFrame:
    """Return query, document and grade, each document once per query.

    Args:
        rows: query, document, grade and line.
        where: the file or argument that has them, for messages.
        faults: counts repeated judgements.
        repeated: see `read_qrels`.
    """
    pair = ["query", "document"]
    first = rows.select(pl.struct(pair).is_first_distinct()).to_series()
    again = int((~first).sum())
    if not again:
        return rows.select("query", "document", "grade")
    if repeated == "stop":
        line = rows.filter(~first).row(0, named=True)
        what = f"document {line['document']!r} is judged again for query {line['query']!r} ({again:,} such lines)"
        raise BadInput(what, f"{where}:{line['line']}", "remove all but one, or set qrels_repeated=max or mean")
    faults.note(f"judgements given again ({MERGED[repeated]})", again)
    merged = rows.group_by(pair, maintain_order=True).agg(merged_grade(repeated))
    return merged.select("query", "document", "grade")


def _joined(
    path: str | Path, frames: Iterable[pl.DataFrame], columns: Mapping[str, Any], faults: Faults
) -> pl.DataFrame:
    parts = list(frames)
    refuse(not sum(len(part) for part in parts), "no lines in it" if faults.strict else "no readable lines in it", path)
    return pl.concat(parts).select(list(columns))
