"""Reads text files of any size, plain or compressed, a block of whole lines at a time.

Memory is bounded by the block, not by the file, and every line keeps its number, so that a fault can be named.
"""

from __future__ import annotations

import codecs
import csv
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from pyrite.ranking.collections.faults import SKIP, Faults
from pyrite.ranking.collections.opened import encoding_of, open_bytes
from pyrite.ranking.collections.reader import frames
from pyrite.ranking.errors import BadInput, refuse

BLANK = r"[ \t\x0B\x0C]"
QUOTED = (",", ";")
"""Separators of tables whose fields may be in quotes."""
QUOTE = "write a quote within a cell twice, or set strict=false to skip and count these lines"
ROWS = 50_000
"""Rows of a table with quotes that are read at once."""
BLOCK = 8 << 20  # bytes read at once; a block costs a few times that while it is taken apart


def blocks(
    path: str | Path, faults: Faults, encoding: str = "utf-8", within: tuple[int, int] | None = None
) -> Iterator[tuple[int, str]]:
    """Yield the text of a file in blocks of whole lines.

    Args:
        path: a file, plain or compressed (`pyrite.ranking.collections.opened`).
        faults: receives each line that is not in the encoding; a skipped line is left blank, so numbers stay right.
        encoding: the encoding of the file. A byte order mark of UTF-16 or UTF-32 at its start overrides it.
        within: the range of bytes, of a plain file, in which the lines begin, counted from 1. None for all.

    Yields:
        (number of the block's first line, counted from 1; text, ending with a line break except at the file's end).

    Raises:
        BadInput: if there is no such file, its encoding is unknown, or it is damaged or truncated, strict or not.
    """
    marked = encoding_of(path, encoding) if within is None else encoding
    refuse(
        "\n".encode(encoding) != b"\n",
        f"{encoding} cannot be read line by line",
        path,
        "convert it to UTF-8 with iconv",
    )
    number = 1
    if marked != encoding:  # by its mark: UTF-8, or decoded to it
        encoding = "utf-8"
    for raw in _whole_lines(path, within, marked):
        try:
            text = raw.decode(encoding)
        except UnicodeDecodeError:
            text = _decode_singly(raw, encoding, faults, path, number)
        if number == 1 and not (within and within[0]):
            text = text.removeprefix("\ufeff")  # of an editor on Windows: it does not belong to the first line
            if "\n" not in text and "\r" in text:  # line breaks of an old Mac, in the whole file
                text = text.replace("\r", "\n")
        yield number, text
        number += raw.count(b"\n")


def lines(
    path: str | Path, faults: Faults, encoding: str = "utf-8", within: tuple[int, int] | None = None
) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file that are not blank, with their numbers, without their line breaks; see `blocks`."""
    for first, text in blocks(path, faults, encoding, within):
        for number, line in enumerate(text.split("\n"), first):
            if line and not line.isspace():
                yield number, line


def tables(
    path: str | Path,
    columns: Mapping[str, pl.DataType],
    faults: Faults,
    *,
    separator: str | None = None,
    encoding: str = "utf-8",
    header: bool = False,
    within: tuple[int, int] | None = None,
    comments: bool = False,
    more: bool = False,
    remedy: str = SKIP,
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a file of columns, one frame per block: millions of lines in seconds.

    Args:
        path: see `blocks`; blank lines are skipped.
        columns: name and type of each column, in order; one whose name starts with an underscore is not kept. A whole
            number may be written with zeros after the point (2.0).
        faults: receives each line with another number of columns, or with a field that is not of its column's type.
        separator: the one character between fields, which may be in quotes if it is one of `QUOTED`. None for any run
            of blanks and tabs.
        encoding: see `blocks`.
        header: whether the first line is a header, which is skipped.
        within: see `blocks`.
        comments: whether lines that begin with # are skipped. Those that would be rows are counted.
        more: whether text after the last column is counted and not read; otherwise such lines are broken.
        remedy: what to do with a line that is broken.

    Yields:
        The columns, then `line` (Int64), the number of each row's line.
    """
    names = list(columns)
    if separator in QUOTED:
        read = _quoted_fields(path, faults, encoding, names, str(separator), comments)
    else:
        read = _plain_fields(blocks(path, faults, encoding, within), _pattern(names, separator, more), comments, faults)
    skipped = int(header and not (within and within[0]))
    for fields in read:
        fields, skipped = fields[skipped:], max(0, skipped - len(fields))
        typed = fields.select(_typed(name, dtype) for name, dtype in columns.items())
        good = typed.select(pl.all_horizontal(pl.all().is_not_null())).to_series()
        if more:  # `1 Q0 an id 1 0.5 mine`: the tag would be a number, and the rest what it is not
            good &= fields["_more"].is_null() | fields[names[-1]].cast(pl.Float64, strict=False).is_null()
            longer = fields.filter(good)["_more"].str.contains(r"\S").sum()
            faults.note("lines with text after their last column, which is not read", int(longer))
        if not good.all():
            worst = int(good.arg_min() or 0)
            what = _complaint(dict(columns), fields.row(worst, named=True), typed.row(worst, named=True), separator)
            faults.report("broken line", what, path, fields["line"][worst], times=int((~good).sum()), remedy=remedy)
        kept = [name for name in names if not name.startswith("_")]
        yield typed.select(kept).with_columns(fields["line"]).filter(good)


def _plain_fields(
    read: Iterator[tuple[int, str]], pattern: str, comments: bool, faults: Faults
) -> Iterator[pl.DataFrame]:
    """Yield the fields of each line as texts, all null if it does not match, and `line`."""
    for first, text in read:
        rows = pl.Series("text", [text]).str.split("\n").explode().to_frame()
        rows = rows.with_row_index("line", offset=first).with_columns(pl.col("line").cast(pl.Int64))
        rows = rows.filter(pl.col("text").str.contains(r"\S"))
        if comments:
            remarks = rows.filter(pl.col("text").str.contains(r"^\s*#"))
            like_rows = remarks["text"].str.strip_suffix("\r").str.contains(pattern).sum()
            faults.note("lines that begin with # and would be rows without it (left out)", int(like_rows))
            rows = rows.filter(~pl.col("text").str.contains(r"^\s*#"))
        fields = rows["text"].str.strip_suffix("\r").str.extract_groups(pattern).struct.unnest()
        yield fields.with_columns(rows["line"])


def _quoted_fields(
    path: str | Path, faults: Faults, encoding: str, names: list[str], separator: str, comments: bool
) -> Iterator[pl.DataFrame]:
    """Yield the fields of each row as texts, all null if it has another number of them, and `line`, its first line.

    A field in quotes may have line breaks.
    """
    texts = (line for _, text in blocks(path, faults, encoding) for line in text.removesuffix("\n").split("\n"))
    kept = ("" if comments and line.lstrip().startswith("#") else line for line in texts)
    csv.field_size_limit(sys.maxsize)  # a stray quote is named below, however much follows it
    reader = csv.reader((f"{line}\n" for line in kept), delimiter=separator, skipinitialspace=True, strict=True)
    schema: dict[str, pl.DataType] = {**dict.fromkeys(names, pl.String()), "line": pl.Int64()}
    return frames(_numbered(reader, len(names), path, faults), schema, ROWS)


def _numbered(reader: Any, width: int, path: str | Path, faults: Faults) -> Iterator[tuple[str | int | None, ...]]:
    """Yield the rows of a reader that are not empty, each with its first line.

    The lines that a stray quote makes one row are reported as that many faults.
    """
    fields: list[str] | None = []
    line = 1
    while fields is not None:
        try:
            fields = next(reader, None)
        except csv.Error as error:
            swallowed, fields = reader.line_num - line + 1, []
            faults.report("broken line", _of_quote(error, reader.line_num, swallowed), path, line,
                          remedy=QUOTE, times=swallowed)  # fmt: skip
        if fields and any(fields):
            yield *(fields if len(fields) == width else [None] * width), line
        line = reader.line_num + 1


def _of_quote(error: csv.Error, last: int, lines: int) -> str:
    """Return what is wrong with a row of a table with quotes that continues to the line `last`."""
    if "unexpected end of data" in str(error):
        return "a quote that begins here is never closed"
    after = ": leave out what follows a closing quote, as a blank" if "expected after" in str(error) else ""
    return f"a quote that begins here goes on to line {last:,}" if lines > 1 else f"not CSV ({error}){after}"


def _whole_lines(path: str | Path, within: tuple[int, int] | None, encoding: str) -> Iterator[bytes]:
    """Yield the bytes of a file, unpacked and not in UTF-16, in pieces that end with a line break (except the last)."""
    if within is not None:
        yield from _lines_within(path, *within)
        return
    rest = b""
    number = 1
    try:
        with open_bytes(path) as stream:
            for piece in _pieces(stream, encoding):
                whole, line_break, rest_of_piece = piece.rpartition(b"\n")
                if not line_break:
                    rest += piece
                    continue
                yield rest + whole + line_break
                number += whole.count(b"\n") + 1
                rest = rest_of_piece
    except BadInput as error:
        if error.where != path or "truncated or damaged" not in error.what:
            raise
        raise BadInput(error.what, f"{path}:{number}", error.remedy) from None
    except UnicodeDecodeError as error:
        raise BadInput(f"is not {encoding}, as its byte order mark says ({error.reason})", path) from None
    if rest:
        yield rest


def _pieces(stream: BinaryIO, encoding: str) -> Iterator[bytes]:
    wide = encoding.startswith(("utf-16", "utf-32"))
    decoder = codecs.getincrementaldecoder(encoding)()
    while piece := stream.read(BLOCK):
        yield decoder.decode(piece).encode() if wide else piece
    if wide and (end := decoder.decode(b"", final=True)):
        yield end.encode()


def _lines_within(path: str | Path, start: int, stop: int) -> Iterator[bytes]:
    """Yield the lines of a plain file that begin in a range of bytes, many at once."""
    with open(path, "rb") as file:
        if start:
            file.seek(start - 1)
            file.readline()  # the rest of the line before, or only its line break
        while (position := file.tell()) < stop:
            piece = file.read(min(BLOCK, stop - position))
            if not piece.endswith(b"\n"):
                piece += file.readline()
            yield piece


def _decode_singly(raw: bytes, encoding: str, faults: Faults, path: str | Path, first: int) -> str:
    texts = []
    for number, line in enumerate(raw.split(b"\n"), first):
        try:
            texts.append(line.decode(encoding))
        except UnicodeDecodeError as error:
            byte = line[error.start]
            faults.report_encoding(f"byte 0x{byte:02x} is not {encoding}", path, number, "latin-1")
            texts.append("")
    return "\n".join(texts)


def _pattern(names: list[str], separator: str | None, more: bool) -> str:
    rest = r"(?P<_more>\S.*?)" if more else ""
    if separator is None:
        end = rf"(?:{BLANK}+{rest})?{BLANK}*$" if more else rf"{BLANK}*$"
        return r"^\s*" + rf"{BLANK}+".join(rf"(?P<{name}>[^ \t\x0B\x0C]+)" for name in names) + end
    between = re.escape(separator)
    end = rf"(?s:{between}(?P<_more>.*))?$" if more else "$"
    return "^" + between.join(rf"(?s:(?P<{name}>[^{between}]*))" for name in names) + end


def _typed(name: str, dtype: pl.DataType) -> pl.Expr:
    """Return a column of text as its type, null if it can't be; a whole number may be written as 2.0, true or false."""
    text = pl.col(name)
    if dtype.is_integer():
        text = text.str.replace(r"^([+-]?\d+)\.0*$", "${1}")  # pandas writes grades next to missing ones as 1.0
        text = text.str.replace(r"^(?i:true)$", "1").str.replace(r"^(?i:false)$", "0")
    value = text.cast(dtype, strict=False)
    return value.fill_nan(None) if dtype.is_float() else value


def _complaint(
    columns: dict[str, pl.DataType], fields: dict[str, object], typed: dict[str, object], separator: str | None
) -> str:
    for name, dtype in columns.items():
        if fields[name] is None:
            by = "blanks or tabs" if separator is None else repr(separator)
            names = ", ".join(name.strip("_") for name in columns)
            return f"not {len(columns)} columns ({names}) separated by {by}"
        if typed[name] is None:
            number = "a number" if dtype.is_float() else "a whole number"
            if re.fullmatch(r"[+-]?\d{10,}(\.0*)?", str(fields[name])):
                number += " of 32 bits"
            comma = re.fullmatch(r"[+-]?\d+,\d+", str(fields[name]))
            return f"{name} {str(fields[name])[:40]!r} is not {number}{': write a point, not a comma' if comma else ''}"
    return f"the last column is the number {fields[list(columns)[-1]]!r}, and text follows: has an id a blank in it?"
