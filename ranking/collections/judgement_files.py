"""Reads judgements and runs in the forms that tools write: lines of columns, tables with a header, JSON and parquet."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.collections.json_judgements import Row, json_judgements
from pyrite.ranking.collections.lines import lines, tables
from pyrite.ranking.collections.opened import plain_name
from pyrite.ranking.collections.reader import JUDGEMENTS
from pyrite.ranking.collections.run_dialects import (
    NAMES,
    OF_PYRITE,
    QREL_DIALECTS,
    QREL_NAMES,
    RELEVANT,
    RUN_DIALECTS,
    Form,
    form_of,
    named_columns,
)
from pyrite.ranking.errors import BadInput, refuse

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
TYPES: Mapping[str, pl.DataType] = {**RUN, **QRELS, "rank": pl.String()}  # read although it is no whole number
READ_RUN = {"query": pl.String, "document": pl.String, "rank": pl.Int32, "score": pl.Float64, "tag": pl.String}
READ_QRELS = {"query": pl.String, "document": pl.String, "grade": pl.Int32}
FORMULA = r"'*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"
"""The start of a text that a spreadsheet takes for a formula, or of one that has been marked as none.

The last signs are the wide forms of =, +, - and @.
"""
HEAD = 100
"""The number of lines by which the form of a file is found."""
_ROW_WITH_HASH = re.compile(r"#\S+([ \t]+\S+){2,}")
"""A line whose first id begins with #."""
_OF_GRADES, _OF_SCORES = (
    ("grade", QREL_NAMES, QREL_DIALECTS, ["grade"]),
    ("score", NAMES, RUN_DIALECTS, ["score", "rank"]),
)
_Kind = tuple[str, Mapping[str, Sequence[str]], Any, list[str]]
"""The value of a file, our names of its columns, its dialects, and the columns of which a header names one."""


def qrels_rows(path: str | Path, faults: Faults, encoding: str = "utf-8") -> Iterator[pl.DataFrame]:
    """Yield judgements: query, document (String), grade (Int32) and line (Int64), in the order of the file.

    Args:
        path: a file in one of the dialects `pyrite.ranking.collections.run_dialects.QREL_DIALECTS`, CSV or TSV with a
            header, parquet, or JSON (`pyrite.ranking.collections.json_judgements`). Plain or compressed; lines that
            begin with # are skipped. A grade may be true or false.
        faults: receives each broken line.

    Raises:
        BadInput: if the file can't be read.
    """
    for frame in _frames(path, _OF_GRADES, faults, encoding):
        yield _with_ids(frame, path, faults).select([*READ_QRELS, "line"])


def marked(texts: pl.Expr) -> pl.Expr:
    """Return texts with an apostrophe before those that a spreadsheet would take for a formula, see `unmarked`."""
    return texts.str.replace(f"^({FORMULA})", "'${1}")


def unmarked(texts: pl.Expr) -> pl.Expr:
    """Return texts without the apostrophe of `marked`."""
    return texts.str.replace(f"^'({FORMULA})", "${1}")


def ungraded_lines(path: str | Path, encoding: str = "utf-8") -> tuple[list[int], int]:
    """Return the lines of a table that have no grade yet, and how many rows it has.

    Args:
        path: a table with a header, which people fill in. Other forms have no such lines, nor has a table of `pyrite
            judge`, in which they say that the assessor could not judge.
    """
    if plain_name(Path(path)).endswith(".parquet"):
        return [], 0
    head, with_hash = _head(path, encoding)
    form = form_of([line for _, line in head], QREL_DIALECTS, QREL_NAMES, ["grade"])
    if not form.header or form.dialect is OF_PYRITE or "grade" not in form.columns:
        return [], 0
    texts = dict.fromkeys(form.columns, pl.String())
    how: Any = {"separator": form.separator, "encoding": encoding, "header": True, "comments": not with_hash}
    rows = pl.concat(tables(path, texts, Faults(strict=False), **how)).select("grade", "line")
    return rows.filter(pl.col("grade").str.strip_chars() == "")["line"].to_list(), len(rows)


def judgements_of(files: Iterable[tuple[Path, str | None]], faults: Faults) -> pl.DataFrame:
    """Return the judgements of files, each of which may belong to a split, as a frame of `JUDGEMENTS`."""
    parts = [pl.DataFrame(schema=JUDGEMENTS)]
    for file, split in files:
        of_file = list(qrels_rows(file, faults))
        faults.note(f"files without judgements ({file.name})", not any(map(len, of_file)))
        named = (pl.lit(split, pl.String).alias("split"), pl.lit(str(file)).alias("file"))
        parts += [rows.with_columns(named).select(list(JUDGEMENTS)) for rows in of_file]
    return pl.concat(parts, rechunk=True)


def run_rows(path: str | Path, faults: Faults, encoding: str = "utf-8") -> Iterator[pl.DataFrame]:
    """Yield a run's lines: query, document, rank (Int32), score (Float64), tag and line, in the order of the file.

    A rank that is not a whole number is null: the order of a run is that of its scores. Without scores, the score is
    −rank. A form without a tag gets the file's name.

    Args:
        path: a file in one of the dialects `pyrite.ranking.collections.run_dialects.RUN_DIALECTS`, CSV or TSV with a
            header, parquet, or JSON (`pyrite.ranking.collections.json_judgements`). Plain or compressed; lines that
            begin with # are skipped.
        faults: receives each broken line, and a file of something else instead of a run.

    Raises:
        BadInput: if the file can't be read.
    """
    rank = pl.col("rank").cast(pl.String).str.replace(r"\.0*$", "").cast(pl.Int32, strict=False)
    present = {"rank": rank, "score": pl.col("score"), "tag": pl.col("tag")}
    absent = {
        "rank": pl.lit(None, pl.Int32), "score": -pl.col("rank").cast(pl.Float64),
        "tag": pl.lit(Path(path).name.split(".")[0]),
    }  # fmt: skip
    for every in _frames(path, _OF_SCORES, faults, encoding):
        frame = _with_ids(every, path, faults)
        columns = absent | {name: present[name] for name in present.keys() & set(frame.columns)}
        yield frame.select("query", "document", *(column.alias(name) for name, column in columns.items()), "line")


def is_number(text: str) -> bool:
    """Return whether a text writes a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _frames(path: str | Path, kind: _Kind, faults: Faults, encoding: str) -> Iterator[pl.DataFrame]:
    """Yield the rows of a file with those of our columns that it has."""
    value, names, dialects, needs = kind
    if plain_name(Path(path)).endswith(".parquet"):
        yield _typed(_parquet(path, value, names, faults), value, path, faults)
        return
    head, with_hash = _head(path, encoding)
    texts = [line for _, line in head]
    if texts[0].lstrip().startswith(("{", "[")):
        yield _typed(json_judgements(path, texts, value, names, faults, encoding), value, path, faults)
        return
    form = form_of(texts, dialects, names, needs)
    if form.dialect.refused:
        what, remedy = form.dialect.refused
        faults.report(f"not {'judgements' if value == 'grade' else 'a run'}", what, path, head[0][0], remedy=remedy)
        return
    yield from _of_table(path, form, faults, encoding, comments=not with_hash)


def _head(path: str | Path, encoding: str) -> tuple[list[tuple[int, str]], bool]:
    """Return the first lines with their numbers, without comments, and whether the ids of all lines begin with #.

    Without any line it is an empty one.
    """
    read = ((number, line.strip("\r\n")) for number, line in lines(path, Faults(strict=False), encoding))
    hashed: list[tuple[int, str]] = []
    head: list[tuple[int, str]] = []
    for row in read:
        (hashed if row[1].lstrip().startswith("#") else head).append(row)
        if len(head) == HEAD:
            break
    if head or not hashed or not all(_ROW_WITH_HASH.fullmatch(line) for _, line in hashed):
        return head or [(1, "")], False
    return hashed, True


def _of_table(path: str | Path, form: Form, faults: Faults, encoding: str, comments: bool) -> Iterator[pl.DataFrame]:
    """Yield the rows of a file of columns."""
    ranked = {} if "score" in form.columns else {"rank": pl.Int32()}
    known = {**TYPES, **ranked, **form.dialect.types}
    types = {name: known.get(name, pl.String()) for name in form.columns}
    every = tables(
        path, types, faults, separator=form.separator, encoding=encoding, header=form.header, comments=comments,
        more=form.dialect.more, remedy=form.remedy,
    )  # fmt: skip
    for frame in every:
        if form.dialect.is_marked:
            frame = frame.with_columns(unmarked(pl.col("query", "document")))
        if form.dialect is OF_PYRITE:
            frame = _of_pyrite(frame, faults)
        if form.dialect.note:
            faults.note(form.dialect.note, len(frame))
        yield frame.with_columns(
            pl.lit(number, TYPES[name]).alias(name) for name, number in form.dialect.values.items()
        )


def _of_pyrite(frame: pl.DataFrame, faults: Faults) -> pl.DataFrame:
    """Return the judgements of a table that `pyrite judge` wrote: without those that have no grade."""
    grades = frame.with_columns(pl.col("grade").cast(pl.Int32, strict=False))
    faults.note("judgements without a grade (the assessor could not judge), left out", grades["grade"].null_count())
    return grades.drop_nulls("grade")


def _with_ids(frame: pl.DataFrame, path: str | Path, faults: Faults) -> pl.DataFrame:
    """Return the rows whose query and document are not empty, as a field between two tabs may be; others are broken."""
    empty = frame.filter(pl.any_horizontal(pl.col("query", "document").str.strip_chars() == ""))
    if len(empty):
        name = "document" if empty["query"][0].strip() else "query"
        faults.report("broken line", f"the {name}'s id is empty", path, empty["line"][0], times=len(empty))
    return frame.filter(pl.all_horizontal(pl.col("query", "document").str.strip_chars() != ""))


def _parquet(
    path: str | Path, value: str, names: Mapping[str, Sequence[str]], faults: Faults
) -> Iterator[tuple[Row, int]]:
    """Yield the rows of a table in parquet, and their numbers."""
    try:
        frame = pl.read_parquet(path, glob=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise BadInput(f"can't be read ({str(error).splitlines()[0][:200]})", path, "is it whole?") from None
    there = f"it has {', '.join(frame.columns)}; rename one of them"
    frame.columns = named_columns([name.lower() for name in frame.columns], names)
    columns = set(frame.columns)
    if value == "score" and {"rank", "score"} & columns == {"rank"}:
        frame = frame.with_columns(score=-pl.col("rank").cast(pl.Float64))
    if value == "grade" and {"query", "document"} == columns:
        faults.note(str(RELEVANT.note), len(frame))
        frame = frame.with_columns(grade=1)
    missing = [
        f"{name} (such as {', '.join(names[name][:3])})"
        for name in ("query", "document", value) if name not in frame.columns
    ]  # fmt: skip
    refuse(missing, "has no column of the {}", path, there)
    frame = frame if "tag" in frame.columns else frame.with_columns(tag=None)
    yield from zip(frame.select("query", "document", value, "tag").iter_rows(), itertools.count(1), strict=False)


def _typed(rows: Iterable[tuple[Row, int]], value: str, path: str | Path, faults: Faults) -> pl.DataFrame:
    """Return rows with the types that they must have; others are reported."""
    good: list[tuple[str, str, int | float, str | None, int]] = []
    for (query, document, number, tag), line in rows:
        ids = [_id(query), _id(document)]
        read = _number(number, whole=value == "grade")
        if None in ids:
            name, wrong = ("query", query) if ids[0] is None else ("document", document)
            faults.report("broken line", f"the {name} {wrong!r} is no id: write it as a text", path, line)
        elif read is None:
            kind = "a whole number of 32 bits" if value == "grade" else "a number"
            faults.report("broken line", f"{value} {str(number)[:40]!r} is not {kind}", path, line)
        else:
            good.append((str(ids[0]), str(ids[1]), read, _id(tag), line))
    schema = {
        "query": pl.String(),
        "document": pl.String(),
        value: TYPES[value],
        "tag": pl.String(),
        "line": pl.Int64(),
    }
    frame = pl.DataFrame(good, schema, orient="row")
    return frame.drop("tag") if frame["tag"].null_count() else frame


def _id(value: Any) -> str | None:
    """Return an id as a text: a number as it is written. None if it is none, as an empty cell or a float."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (str, int)) and value != "" else None


def _number(value: Any, whole: bool) -> int | float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    if math.isnan(number) or (whole and (not number.is_integer() or abs(number) >= 2**31)):
        return None
    return int(number) if whole else number
