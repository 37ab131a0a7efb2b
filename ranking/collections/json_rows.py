"""Reads rows from JSON: an object per line, an array of objects, or the nested form of SQuAD."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.collections.lines import blocks, lines
from pyrite.ranking.collections.opened import encoding_of, open_bytes
from pyrite.ranking.collections.splits import split_named
from pyrite.ranking.errors import BadInput

_GAP = re.compile(r"[\s,]*")


class Point(str):
    """A number with a point, an exponent or no value (NaN), as it is written: no id, and a text only if it is one."""

    __slots__ = ()


DECODER = json.JSONDecoder(parse_int=str, parse_float=Point, parse_constant=Point)
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
    head = _head(file, encoding)
    items = parsed(head) if head.startswith("[") else None
    is_row = isinstance(items, list) and not any(isinstance(item, (dict, list)) for item in items)
    if head.startswith("[") and not is_row:
        entries = array_items(file, faults, encoding)
    elif head.startswith("{") and ".json" in file.name.lower() and head.split("\n", 1)[0].rstrip() == "{":
        entries = _whole(file, faults, encoding)
    else:
        entries = json_lines(file, faults, encoding)
    for number, entry in entries:
        if isinstance(entry, dict):
            yield from _expanded(number, entry)
        elif isinstance(entry, list) and len(entry) > 1 and not any(isinstance(item, dict) for item in entry):
            yield number, dict(zip(unnamed(len(entry)), entry, strict=True))
        else:
            what = "neither a JSON object nor a list of a query, a positive and negatives"
            faults.report("broken line", what, file, number)


def unnamed(count: int) -> list[str]:
    """Return names for the columns of rows without names: a query, a positive and negatives."""
    names = ["query", "positive", "negative", *(f"negative_{number}" for number in range(2, count))]
    return names[:count]


def _head(file: Path, encoding: str) -> str:
    """Return the beginning of a file without leading blanks: its whole first line, if that is not endless."""
    with open_bytes(file) as stream:
        start = stream.readline(1 << 26)
        while start and not start.strip():
            start = stream.readline(1 << 26)
    return start.decode(encoding_of(file, encoding), "replace").lstrip("\ufeff \t\r\n")


def parsed(line: str) -> Any:
    """Return what a line of JSON holds; None if it is broken."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _decoded(line: str) -> Any:
    entry = DECODER.decode(line)
    if "\\ud" in line:  # an escape that may encode half a character
        json.dumps(entry, ensure_ascii=False).encode()
    return entry


def json_lines(
    file: Path,
    faults: Faults,
    encoding: str = "utf-8",
    within: tuple[int, int] | None = None,
    parse: Callable[[str], Any] = _decoded,
) -> Iterator[tuple[int, Any]]:
    """Yield what the lines of a file hold, each with its number; see `pyrite.ranking.collections.lines.blocks`."""
    for number, line in lines(file, faults, encoding, within):
        try:
            entry = parse(line)
        except json.JSONDecodeError as error:
            what = f"not JSON ({error.msg.removesuffix(' at')} at character {error.pos + 1})"
            if line.lstrip().startswith("<"):
                what = "not JSON but HTML: was a page downloaded instead of the file?"
            faults.report("broken line", what, file, number)
        except UnicodeEncodeError:
            faults.report("broken line", "half of a surrogate pair, which is no character", file, number)
        except RecursionError:
            faults.report("broken line", "nested too deeply", file, number)
        else:
            yield number, entry


def array_items(file: Path, faults: Faults, encoding: str = "utf-8") -> Iterator[tuple[int, Any]]:
    """Yield the items of an array, holding as much text as the longest item and a block."""
    rest, number, opened = "", 1, False
    for _, text in blocks(file, faults, encoding):
        rest += text
        position = 0
        if not opened:
            position = rest.index("[") + 1
            number += rest.count("\n", 0, position)
            opened = True
        while True:
            start = _GAP.match(rest, position).end()  # type: ignore[union-attr]
            number += rest.count("\n", position, start)
            position = start
            if rest[position : position + 1] in ("", "]"):
                break
            try:
                entry, end = DECODER.raw_decode(rest, position)
            except RecursionError:
                raise BadInput("nested too deeply", f"{file}:{number}") from None
            except json.JSONDecodeError:
                break  # the rest of the item is in the next block
            yield number, entry
            number += rest.count("\n", position, end)
            position = end
        rest = rest[position:]
    if not rest.lstrip().startswith("]"):
        raise BadInput("the array is broken, or cut short", f"{file}:{number}", "is the file whole?")


def _whole(file: Path, faults: Faults, encoding: str) -> Iterator[tuple[int, Any]]:
    text = "".join(text for _, text in blocks(file, faults, encoding))
    try:
        yield 1, DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise BadInput(f"not JSON ({error.msg})", f"{file}:{error.lineno}", "is the file whole?") from None
    except RecursionError:
        raise BadInput("nested too deeply", file) from None


def rows_of_columns(entry: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    """Return the rows of a whole table in one object; None if the object is a row.

    A table has a list per column, or an object by row per column (`to_json` of pandas), or an object per row by its
    number (`orient="index"`), or `columns` and `data` (`orient="split"`), or rows by split, which get a column `split`.
    """
    first = next(iter(entry.values()), None)
    if not isinstance(first, (list, dict)) or len(entry) < 2:
        return None
    keys, values = list(entry), list(entry.values())
    if {"columns", "data"} <= set(keys):
        return [dict(zip(entry["columns"], row, strict=False)) for row in entry["data"]]
    if all(split_named(key) and isinstance(value, list) for key, value in entry.items()):
        return [{**row, "split": split} for split, rows in entry.items() for row in rows if isinstance(row, dict)]
    if all(isinstance(value, dict) for value in values):
        if all(key.isdecimal() for key in keys):
            return values
        if (
            isinstance(first, dict)
            and first
            and all(value.keys() == first.keys() for value in values)
            and all(key.isdecimal() for key in first)
        ):
            return [dict(zip(keys, (value[row] for value in values), strict=True)) for row in first]
        return None
    are_columns = all(isinstance(value, list) and len(value) == len(first) for value in values)
    if not first or not are_columns or not all(isinstance(item, str) for item in first):
        return None
    return [dict(zip(keys, row, strict=True)) for row in zip(*values, strict=True)]


def _expanded(number: int, entry: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the rows of an object: itself, or the questions that SQuAD has in its `data`."""
    data = entry.get("data")
    if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
        yield number, entry
        return
    for item in data:
        if not isinstance(item.get("paragraphs"), list):
            yield number, item
            continue
        for paragraph in item["paragraphs"]:
            for question in paragraph.get("qas", []):
                answered = not question.get("is_impossible", False)
                yield number, {
                    "query": question.get("question"), "query_id": question.get("id"),
                    "document": paragraph.get("context"), "label": "1" if answered else "0",
                }  # fmt: skip
