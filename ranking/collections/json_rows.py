"""Reads rows from JSON: an object per line, an array of objects, or a whole table in one object."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pyrite.ranking.collections.faults import Faults, RowFault, refuse_row
from pyrite.ranking.collections.lines import blocks, lines
from pyrite.ranking.collections.opened import encoding_of, open_bytes
from pyrite.ranking.collections.pair_dialects import unnamed
from pyrite.ranking.collections.splits import split_named
from pyrite.ranking.errors import BadInput, refuse

_GAPS = {True: re.compile(r"[\s,]*"), False: re.compile(r"\s*(?:,\s*(?=\[))?")}
"""The text that is skipped within arrays and between them."""
_ESCAPES = ("\\ud", "\\uD")
"""The beginnings of escapes that may encode half a character."""
HALF_CHARACTER = "half of a surrogate pair, which is no character"
Table = Mapping[str, Any]


class JsonPoint(str):
    """A number with a point, an exponent or no value (NaN), as it is written: no id, and a text only if it is one."""

    __slots__ = ()


DECODER = json.JSONDecoder(parse_int=str, parse_float=JsonPoint, parse_constant=JsonPoint)
"""Keeps numbers as they are written: 0.10, 1e5, and ids longer than an integer."""


def json_rows(file: Path, faults: Faults, encoding: str = "utf-8") -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the objects of a file, each with the number of its line, from 1.

    Args:
        file: JSON lines; an array of objects; or one object whose `data` is a list of them, as SQuAD has it. An object
            may be a list instead: a query, a positive and negatives.
        faults: receives lines that are not JSON objects.

    Raises:
        BadInput: if an array or a whole object is broken.
    """
    for number, entry in entries_of(file, faults, encoding):
        for read, part in _parts(entry):
            try:
                rows = read(part)
            except RowFault as fault:
                faults.report_row(fault, file, number)
            else:
                yield from ((number, row) for row in rows)


def entries_of(file: Path, faults: Faults, encoding: str = "utf-8") -> Iterator[tuple[int, Any]]:
    """Yield what a file of JSON holds: the lines, the items of an array, or one object over several lines."""
    head = _head(file, encoding)
    if head.startswith("[") and not _is_flat(parsed(head)):
        return array_items(file, faults, encoding)
    opens_object = head.split("\n", 1)[0].rstrip() == "{" and ".json" in file.name.lower()
    return (_whole if opens_object else json_lines)(file, faults, encoding)


def _is_flat(entry: Any) -> bool:
    """Return whether an entry is a list of values, none of which is a list or an object."""
    return isinstance(entry, list) and not {dict, list} & set(map(type, entry))


def is_row(entry: Any) -> bool:
    """Return whether an entry is a list of a query and documents, none of which is an object."""
    return isinstance(entry, list) and len(entry) > 1 and dict not in map(type, entry)


def _row(entry: Any) -> list[Table]:
    """Return the row of an object, or of a list of a query, a positive and negatives."""
    what = "neither a JSON object nor a list of a query, a positive and negatives"
    refuse_row(not isinstance(entry, dict) and not is_row(entry), what)
    return [entry if isinstance(entry, dict) else dict(zip(unnamed(len(entry)), entry, strict=True))]


def _head(file: Path, encoding: str) -> str:
    """Return the beginning of a file without leading blanks: its whole first line, if that is not endless."""
    with open_bytes(file) as stream:
        start = next(filter(bytes.strip, iter(lambda: stream.readline(1 << 26), b"")), b"")
    return start.decode(encoding_of(file, encoding), "replace").lstrip("\ufeff \t\r\n")


def parsed(line: str) -> Any:
    """Return what a line of JSON holds; None if it is broken."""
    try:
        return decoded(line, json.loads)
    except (ValueError, RecursionError):
        return None


def decoded(text: str, decode: Callable[[str], Any] = DECODER.decode) -> Any:
    """Return what a text of JSON holds; raise `ValueError` if it is broken, or has half of a surrogate pair."""
    entry = decode(text)
    if has_half_character(entry, text):
        raise ValueError(HALF_CHARACTER)
    return entry


def has_half_character(entry: Any, text: str, start: int = 0, end: int = sys.maxsize) -> bool:
    """Return whether what was read of a part of a text has half of a surrogate pair, which can't be encoded."""
    if all(text.find(escape, start, end) < 0 for escape in _ESCAPES):
        return False
    try:
        json.dumps(entry, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def json_lines(
    file: Path,
    faults: Faults,
    encoding: str = "utf-8",
    within: tuple[int, int] | None = None,
    parse: Callable[[str], Any] = decoded,
) -> Iterator[tuple[int, Any]]:
    """Yield what the lines of a file hold, each with its number; see `pyrite.ranking.collections.lines.blocks`."""
    for number, line in lines(file, faults, encoding, within):
        try:
            entry = parse(line)
        except (ValueError, RecursionError) as error:
            faults.report("broken line", _complaint(error, line), file, number)
        else:
            yield number, entry


def _complaint(error: Exception, line: str) -> str:
    """Return what is wrong with a line."""
    if line.lstrip().startswith("<"):
        return "not JSON but HTML: was a page downloaded instead of the file?"
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON ({error.msg.removesuffix(' at')} at character {error.pos + 1})"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def array_items(file: Path, faults: Faults, encoding: str = "utf-8") -> Iterator[tuple[int, Any]]:
    """Yield the items of an array, or of several after each other, holding as much text as the longest and a block."""
    rest, number, inside = "", 1, False
    for _, text in blocks(file, faults, encoding):
        rest += text
        position = 0
        while (start := _GAPS[inside].match(rest, position).end()) < len(rest):  # type: ignore[union-attr]
            number += rest.count("\n", position, start)
            position = start
            if rest[position] == "[]"[inside]:  # an array begins or ends
                inside, position = not inside, position + 1
                continue
            if not inside:
                remedy = "write one array, or one object per line"
                raise BadInput("text follows the end of the array", f"{file}:{number}", remedy)
            try:
                entry, end = DECODER.raw_decode(rest, position)
            except RecursionError:
                raise BadInput("nested too deeply", f"{file}:{number}") from None
            except json.JSONDecodeError:
                break  # the rest of the item is in the next block
            if has_half_character(entry, rest, position, end):
                faults.report("broken line", HALF_CHARACTER, file, number)
            else:
                yield number, entry
            number += rest.count("\n", position, end)
            position = end
        rest = rest[position:]
    refuse(inside, "the array is broken, or cut short", f"{file}:{number}", "is the file whole?")


def _whole(file: Path, faults: Faults, encoding: str) -> Iterator[tuple[int, Any]]:
    text = "".join(text for _, text in blocks(file, faults, encoding))
    try:
        yield 1, decoded(text)
    except json.JSONDecodeError as error:
        raise BadInput(f"not JSON ({error.msg})", f"{file}:{error.lineno}", "is the file whole?") from None
    except (ValueError, RecursionError) as error:
        raise BadInput(_complaint(error, text), file, "fix it, or write one object per line") from None


def are(kind: type, items: Iterable[Any]) -> bool:
    """Return whether all items are of a kind."""
    return all(isinstance(item, kind) for item in items)


def _is_by_split(table: Table) -> bool:
    return all(map(split_named, table)) and are(list, table.values())


def _is_by_row(table: Table) -> bool:
    return are(dict, table.values()) and all(map(str.isdecimal, table))


def _is_by_column(table: Table) -> bool:
    """Return whether there is an object by the same rows for each column."""
    keys = {*map(tuple, table.values())} if are(dict, table.values()) else set()
    return len(keys) == 1 and keys != {()} and all(map(str.isdecimal, *keys))


def _has_lists(table: Table) -> bool:
    """Return whether there is a list of as many items for each column, the first one of texts."""
    lengths = {*map(len, table.values())} if are(list, table.values()) else set()
    return len(lengths) == 1 and lengths != {0} and are(str, next(iter(table.values())))


def _of_columns(columns: Any, row: Any) -> Table:
    """Return a row of pandas by the names of its columns."""
    fits = isinstance(columns, list) and isinstance(row, list) and len(columns) == len(row)
    refuse_row(not fits, "a row of `data` has not one value per name in `columns`")
    return dict(zip(columns, row, strict=True))


def _turned(table: Table) -> list[Mapping[str, Any]]:
    """Return the rows of columns, which are lists or objects by row."""
    columns = (value.values() if isinstance(value, dict) else value for value in table.values())
    return [dict(zip(table, row, strict=True)) for row in zip(*columns, strict=True)]


TABLES: tuple[tuple[Callable[[Table], bool], Callable[[Table], list[Mapping[str, Any]]]], ...] = (
    (lambda table: {"columns", "data"} <= table.keys(),  # orient="split" of pandas
     lambda table: [_of_columns(table["columns"], row) for row in table["data"]]),
    (_is_by_split,
     lambda table: [{**row, "split": split} for split, rows in table.items() for entry in rows for row in _row(entry)]),
    (_is_by_row, lambda table: list(table.values())),  # orient="index"
    (_is_by_column, _turned),  # to_json of pandas
    (_has_lists, _turned),
)  # fmt: skip
"""The forms of a whole table in one object, in the order in which they are tried, and how its rows are read."""


def rows_of_columns(entry: Table) -> list[Mapping[str, Any]] | None:
    """Return the rows of a whole table in one object; None if the object is a row. Raise `RowFault` if one is none."""
    if len(entry) < 2 or not isinstance(next(iter(entry.values())), (list, dict)):
        return None
    return next((rows(entry) for fits, rows in TABLES if fits(entry)), None)


def _parts(entry: Any) -> Iterator[tuple[Callable[[Any], list[Table]], Any]]:
    """Yield the parts of an entry and how each is read: a row, the rows in its `data`, or SQuAD's paragraphs there."""
    data = entry.get("data") if isinstance(entry, dict) else None
    if not isinstance(data, list) or not are(dict, data):
        yield _row, entry
        return
    for item in data:
        paragraphs = item.get("paragraphs")
        if isinstance(paragraphs, list):
            yield from ((_questions, paragraph) for paragraph in paragraphs)
        else:
            yield _row, item


def _questions(paragraph: Any) -> list[Table]:
    """Return the questions of a paragraph of SQuAD."""
    refuse_row(not isinstance(paragraph, dict), "a paragraph is no JSON object")
    questions = paragraph.get("qas") or []
    fits = isinstance(questions, list) and are(dict, questions)
    refuse_row(not fits, "the questions of a paragraph (qas) are no JSON objects")
    return [
        {
            "query": question.get("question"), "query_id": question.get("id"), "document": paragraph.get("context"),
            "label": str(int(not question.get("is_impossible", False))),
        }
        for question in questions
    ]  # fmt: skip
