"""Takes the values of a row apart: texts, lists, passages and messages into documents, and numbers out of texts."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pyrite.ranking.collections.faults import SKIP, RowFault
from pyrite.ranking.collections.json_rows import Point
from pyrite.ranking.collections.names import IDS, TEXT, TITLE, first, first_value


class Document(NamedTuple):
    """A document of a row. The grade of a negative is None."""

    text: str
    id: str | None = None
    grade: int | None = None
    score: float | None = None


def documents(value: Any, what: str) -> list[Document]:
    """Return the documents of a value: a text, a passage (an object), messages of a chat, or a list of these.

    Args:
        what: the column, for messages.
    """
    if type(value) is str and not value.startswith("["):  # nearly all
        return [Document(value)] if value.strip() else []
    read = next((read for fits, read in SHAPES if fits(value)), None)
    if read is None:
        raise RowFault(f"{what} is no text ({type(value).__name__})")
    return read(value, what)


def query_text(value: Any) -> str:
    """Return the text of a query: a text, a number, or messages of a chat."""
    texts = [document.text for document in documents(value, "the query")]
    if len(texts) > 1 and all(map(str.isdecimal, texts)):
        what = f"the query is a list of {len(texts)} numbers, as a tokenizer makes them, and no text"
        raise RowFault(what, "bring the texts", always=True)
    if len(texts) > 1:
        remedy = "write one text per query, or set strict=false to skip and count such rows"
        raise RowFault(f"the query is a list of {len(texts)} texts", remedy)
    return "".join(texts)


def identifier(value: Any) -> str | None:
    """Return an id as it is written; numbers with a point are none."""
    if value in (None, ""):
        return None
    if isinstance(value, Point) or not isinstance(value, str | int):
        raise RowFault(f"the id {str(value)[:40]} is no text: write ids as texts")
    return _text(value)


def numbers(value: Any, what: str) -> list[float | None]:
    """Return the numbers of a value or a list; None for a null in a list."""
    if isinstance(value, str) and value.startswith("["):
        value = _unpacked(value, object, what)
    if value is None or value == "":
        return []
    items = value if isinstance(value, list | tuple) else [value]
    return [None if item is None and items is value else number(item, what) for item in items]


def number(value: Any, what: str) -> float:
    """Return the number that a value is, or that a text writes, within the range of single precision."""
    try:
        read = float({"true": 1, "false": 0}.get(value.lower(), value) if isinstance(value, str) else value)
    except (TypeError, ValueError):
        comma = re.fullmatch(r"[+-]?\d+,\d+", str(value))
        usual = {"label": "write 1 for relevant and 0 for not"}.get(what, SKIP)
        remedy = "write a point, not a comma" if comma else usual
        raise RowFault(f"the {what} {str(value)[:40]!r} is not a number", remedy) from None
    if not abs(read) < 2**127:
        kind = "not a number" if math.isnan(read) else "out of range"
        raise RowFault(f"the {what} is {kind} ({read:g})")
    return read


def _is_messages(value: Any) -> bool:
    """Return whether a list holds messages of a chat."""
    return bool(value) and all(isinstance(item, Mapping) and {"role", "content"} <= item.keys() for item in value)


def _has_lists(value: Any) -> bool:
    """Return whether an object holds lists alone."""
    return bool(value) and all(isinstance(item, list) for item in value.values())


def _of_text(value: str | int | float, what: str) -> list[Document]:
    text = _text(value)
    return [Document(text)] if text.strip() or isinstance(value, Point) else []


def _of_written_list(value: str, what: str) -> list[Document]:
    items = _unpacked(value, str, what)
    return [Document(items)] if isinstance(items, str) else documents(items, what)


def _of_messages(value: list[Mapping[str, Any]], what: str) -> list[Document]:
    contents = (_content(item["content"]) for item in value)
    return [Document(" ".join(filter(None, contents)))]


def _of_list(value: list[Any], what: str) -> list[Document]:
    read: list[Document] = []
    for item in value:
        blank = isinstance(item, str) and not item.strip()
        read += [Document("")] if blank else documents(item, what)
    return read


def _of_columns(value: Mapping[str, list[Any]], what: str) -> list[Document]:
    """Return the documents of a list of objects, as the library datasets turns it."""
    return [_passage(dict(zip(value, items, strict=True)), what) for items in zip(*value.values(), strict=True)]


def _passage(value: Mapping[str, Any], what: str) -> Document:
    """Return the document of an object with a text, a title and an id, as Tevatron and DPR have it."""
    texts = {name: text for name, text in value.items() if isinstance(text, str)}
    name = first(TEXT, texts)
    if name is None:
        keys = ", ".join(map(str, value)) or "nothing"
        raise RowFault(f"{what} has an object without a text: it has {keys}")
    if value.get(TITLE) and TITLE not in texts:
        raise RowFault(f"{what} has a title that is no text")
    given = identifier(first_value(IDS, value))
    [score] = numbers(value.get("score"), "score") or [None]
    return Document(titled(value.get(TITLE), texts[name]), given, None, score)


def titled(title: Any, text: str) -> str:
    """Return a title and a text joined by a blank."""
    return f"{title} {text}" if title else text


_Shape = tuple[Callable[[Any], Any], Callable[[Any, str], list[Document]]]
SHAPES: tuple[_Shape, ...] = (
    (lambda value: value is None, lambda value, what: []),
    (lambda value: isinstance(value, Point) and value.lower() == "nan", lambda value, what: []),  # a missing text
    (lambda value: isinstance(value, str) and value.startswith("["), _of_written_list),
    (lambda value: isinstance(value, str | int | float), _of_text),
    (lambda value: isinstance(value, list | tuple) and _is_messages(value), _of_messages),
    (lambda value: isinstance(value, list | tuple), _of_list),
    # As MS MARCO at the hub has its passages.
    (lambda value: isinstance(value, Mapping) and isinstance(value.get("passage_text"), list),
     lambda value, what: documents(value["passage_text"], what)),
    (lambda value: isinstance(value, Mapping) and _has_lists(value) and value.keys() & set(TEXT), _of_columns),
    # Negatives by the system that found them.
    (lambda value: isinstance(value, Mapping) and _has_lists(value),
     lambda value, what: _of_list(list(value.values()), what)),
    (lambda value: isinstance(value, Mapping), lambda value, what: [_passage(value, what)]),
)  # fmt: skip
"""The shapes of a value that holds documents, in the order in which they are tried, and how each is read."""


def _content(value: Any) -> str:
    """Return the text of a chat message: a text, or parts of which some are text."""
    parts = value if isinstance(value, list) else [{"text": value}] if isinstance(value, str) else []
    return " ".join(str(part["text"]) for part in parts if isinstance(part, Mapping) and part.get("text"))


def _text(value: str | int | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _unpacked(text: str, kind: type, what: str) -> Any:
    """Return the list that a text is, written by Python or as JSON, as pandas leaves it in a CSV; or the text itself.

    A list as NumPy prints it, which can't be taken apart, is refused.
    """
    items = _python(text) if text.endswith("]") else None
    if items is None and kind is str and re.match(r"""\[(['"]).*\1\s+(['"]).*\2\]$""", text, re.S):
        remedy = "write lists as JSON, or one column per document (negative_1, negative_2)"
        raise RowFault(f"{what} is a list as NumPy prints it, without commas", remedy)
    return items if items is not None and all(isinstance(item, kind) for item in items) else text


def _python(text: str) -> list[Any] | None:
    """Return a list that is written as JSON, or as Python writes it; None if it is none, or empty."""
    for read in (json.loads, _literal):
        try:
            items = read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        return items if isinstance(items, list) and items else None
    return None


def _literal(text: str) -> Any:
    items = ast.literal_eval(text)
    if repr(items) != text:  # 'a' 'b' would be one text
        raise ValueError(text)
    return items
