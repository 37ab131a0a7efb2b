"""Reads text files of any size, plain or gzip, a block of whole lines at a time.

Memory is bounded by the block, not by the file, and every line keeps its number, so that a fault can be named.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import polars as pl

from ranking.collections.faults import Faults
from ranking.errors import BadInput

BLOCK = 8 << 20  # bytes read at once; a block costs a few times that while it is taken apart
_GZIP = b"\x1f\x8b"


def blocks(
    path: str | Path, faults: Faults, encoding: str = "utf-8", within: tuple[int, int] | None = None
) -> Iterator[tuple[int, str]]:
    """The text of a file in blocks of whole lines.

    Args:
        path: a plain or gzip file; its first bytes decide, not its name.
        faults: hears of each line that is not in the encoding; a skipped line is left blank, so numbers stay right.
        encoding: any encoding that writes a line break as the one byte 10, which all but UTF-16 and UTF-32 do.
        within: the lines that begin in this range of bytes, of a plain file, counted from 1; None for all.

    Yields:
        (number of the block's first line, counted from 1; text, ending with a line break but at the file's end).

    Raises:
        BadInput: no such file, an unknown encoding, or a damaged or truncated .gz: that one always, strict or not.
    """
    _check_encoding(encoding, path)
    number = 1
    for raw in _whole_lines(path, within):
        try:
            text = raw.decode(encoding)
        except UnicodeDecodeError:
            text = _decode_singly(raw, encoding, faults, path, number)
        # An editor on Windows may put a byte order mark before the first line; it is no part of it.
        yield number, text.removeprefix("\ufeff") if number == 1 and not (within and within[0]) else text
        number += raw.count(b"\n")


def lines(
    path: str | Path, faults: Faults, encoding: str = "utf-8", within: tuple[int, int] | None = None
) -> Iterator[tuple[int, str]]:
    """The lines of a file that are not blank, with their numbers, without their line breaks; as `blocks`."""
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
) -> Iterator[pl.DataFrame]:
    """The rows of a file of columns, a frame a block: millions of lines in seconds.

    Args:
        path: as `blocks`; blank lines are passed over.
        columns: name and type of each column, in order; one whose name starts with an underscore is not kept.
        faults: hears of each line with another number of columns, or with a field that is not of its column's type.
        separator: the one character between fields; any run of blanks and tabs when None.
        encoding: as `blocks`.
        header: the first line may hold names: it is passed over if its fields are not of their types.
        within: as `blocks`.

    Yields:
        The columns, then `line` (Int64), the number of each row's line.
    """
    pattern = _pattern(list(columns), separator)
    for first, text in blocks(path, faults, encoding, within):
        rows = pl.Series("text", [text]).str.split("\n").explode().to_frame()
        rows = rows.with_row_index("line", offset=first).with_columns(pl.col("line").cast(pl.Int64))
        rows = rows.filter(pl.col("text").str.contains(r"\S"))
        fields = rows["text"].str.strip_suffix("\r").str.extract_groups(pattern).struct.unnest()
        typed = fields.select(_typed(name, dtype) for name, dtype in columns.items())
        good = typed.select(pl.all_horizontal(pl.all().is_not_null())).to_series()
        if header and first == 1 and len(good) and not good[0] and fields.row(0)[0] is not None:
            rows, fields, typed, good = rows[1:], fields[1:], typed[1:], good[1:]
        if not good.all():
            worst = int(good.arg_min() or 0)
            what = _complaint(dict(columns), fields.row(worst, named=True), typed.row(worst, named=True), separator)
            faults.report("broken line", what, path, rows["line"][worst], times=int((~good).sum()))
        kept = [name for name in columns if not name.startswith("_")]
        yield typed.select(kept).with_columns(rows["line"]).filter(good)


def _whole_lines(path: str | Path, within: tuple[int, int] | None = None) -> Iterator[bytes]:
    """The bytes of a file, unpacked, in pieces that end with a line break (but the last)."""
    if within is not None:
        yield from _lines_within(path, *within)
        return
    number, rest = 1, b""
    try:
        with open(path, "rb") as file:
            packed = file.read(2) == _GZIP
            file.seek(0)
            if not packed and str(path).endswith(".gz"):
                raise BadInput("not a gzip file, or truncated at its very start", path, "copy it again")
            stream = gzip.GzipFile(fileobj=file) if packed else file
            while piece := stream.read(BLOCK):
                whole, line_break, rest_of_piece = piece.rpartition(b"\n")
                if not line_break:
                    rest += piece
                    continue
                yield rest + whole + line_break
                number += whole.count(b"\n") + 1
                rest = rest_of_piece
    except FileNotFoundError:
        raise BadInput("no such file", path) from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        where = f"{path}:{number}"
        raise BadInput(f"truncated or damaged .gz ({error})", where, "copy it again") from None
    except OSError as error:
        raise BadInput(f"cannot be read ({error.strerror or error})", path) from None
    if rest:
        yield rest


def _lines_within(path: str | Path, start: int, stop: int) -> Iterator[bytes]:
    """The lines of a plain file that begin in a range of bytes, many at once."""
    with open(path, "rb") as file:
        if start:
            file.seek(start - 1)
            file.readline()  # of the line before, or its line break alone
        while (at := file.tell()) < stop:
            piece = file.read(min(BLOCK, stop - at))
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
            remedy = "give its encoding if the reader has that option (encoding=latin-1), or convert it with iconv"
            faults.report("wrong encoding", f"byte 0x{byte:02x} is not {encoding}", path, number, remedy=remedy)
            texts.append("")
    return "\n".join(texts)


def _check_encoding(encoding: str, path: str | Path) -> None:
    try:
        single = "\n".encode(encoding) == b"\n"
    except LookupError:
        raise BadInput(f"unknown encoding {encoding!r}", path, "utf-8 and latin-1 are the usual ones") from None
    if not single:
        raise BadInput(f"{encoding} cannot be read line by line", path, "convert it to UTF-8 with iconv")


def _pattern(names: list[str], separator: str | None) -> str:
    if separator is None:
        return r"^\s*" + r"[ \t]+".join(rf"(?P<{name}>[^ \t]+)" for name in names) + r"[ \t]*$"
    between = re.escape(separator)
    return "^" + between.join(rf"(?s:(?P<{name}>[^{between}]*))" for name in names) + "$"


def _typed(name: str, dtype: pl.DataType) -> pl.Expr:
    value = pl.col(name).cast(dtype, strict=False)
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
            return f"{name} {str(fields[name])[:40]!r} is not {number}"
    raise AssertionError("a row without a fault was called broken")
