"""Takes the values of a row apart: texts, lists, passages and messages into documents, and numbers out of texts."""

from __future__ import annotations

import ast
import io
import itertools
import json
import math
import re
import tokenize
from collections.abc import Mapping, Sequence
from functools import singledispatch
from typing import Any, NamedTuple

from pyrite.ranking.collections.faults import SKIP, RowFault, refuse_row
from pyrite.ranking.collections.json_rows import JsonPoint, decoded
from pyrite.ranking.collections.names import IDS, TEXT, TITLE, first_value
from pyrite.ranking.collections.pair_dialects import NOT_RELEVANT, RELEVANT


class Document(NamedTuple):
    """A document of a row. The grade of a negative is None."""

    text: str
    id: str | None = None
    grade: int | None = None
    score: float | None = None


class ListCell(str):
    """A cell of a CSV or TSV file that begins as a list does: it may be one, since cells hold nothing but text.

    A text of a format with lists is a text.
    """

    __slots__ = ()


LIST_STARTS = ("[", "array(")


def cell(text: str) -> str:
    """Return a cell of a CSV or TSV file, marked if it begins as a list does."""
    return ListCell(text) if text.startswith(LIST_STARTS) else text


@singledispatch
def documents(value: Any, what: str) -> list[Document]:
    """Return the documents of a value: a text, a passage (an object), messages of a chat, or a list of these.

    Args:
        what: the column, for messages.
    """
    raise RowFault(f"{what} is no text ({type(value).__name__})")


def query_text(value: Any) -> str:
    """Return the text of a query: a text, a number, or messages of a chat."""
    if type(value) is str:
        return value  # as nearly all are
    texts = [document.text for document in documents(value, "the query")]
    if len(texts) < 2:
        return "".join(texts)
    what = f"the query is a list of {len(texts)} numbers, as a tokenizer makes them, and no text"
    refuse_row(all(map(str.isdecimal, texts)), what, "bring the texts", always=True)
    remedy = "write one text per query, or set strict=false to skip and count such rows"
    raise RowFault(f"the query is a list of {len(texts)} texts", remedy)


def identifier(value: Any) -> str | None:
    """Return an id as it is written; numbers with a point are none."""
    if value in (None, ""):
        return None
    is_id = isinstance(value, str | int) and not isinstance(value, JsonPoint)
    refuse_row(not is_id, f"the id {str(value)[:40]} is no text: write ids as texts")
    return written(value)


WRITTEN = {word: number for number, name in enumerate(("false", "true")) for word in (name, name.upper(), name.title())}
"""The numbers of truth values."""


@singledispatch
def numbers(value: Any, what: str) -> list[float | None]:
    """Return the numbers of a value or a list; None for a null in a list."""
    return [number(value, what)]


@numbers.register
def _of_no_number(value: None, what: str) -> list[float | None]:
    return []


@numbers.register
def _of_several(value: list | tuple, what: str) -> list[float | None]:
    return [None if item is None else number(item, what) for item in value]


@numbers.register
def _of_written_number(value: str, what: str) -> list[float | None]:
    items = _unpacked(value, object, what) if value.startswith("[") else value
    if isinstance(items, list):
        return numbers(items, what)
    return [number(value, what)] if value else []


def number(value: Any, what: str) -> float:
    """Return the number that a value is, or that a text writes, within the range of single precision."""
    try:
        read = _as_float(value)
    except (TypeError, ValueError):
        if what == "label" and (grade := _grade_of(str(value))) is not None:
            return grade
        comma = re.fullmatch(r"[+-]?\d+,\d+", str(value))
        usual = {"label": "write 1 for relevant and 0 for not"}.get(what, SKIP)
        remedy = "write a point, not a comma" if comma else usual
        raise RowFault(f"the {what} {str(value)[:40]!r} is not a number", remedy) from None
    if not abs(read) < 2**127:
        kind = "not a number" if math.isnan(read) else "out of range"
        raise RowFault(f"the {what} is {kind} ({read:g})")
    return read


def _as_float(value: Any) -> float:
    """Return a value as a number. Python takes 1_000 for one, and nothing else that writes files does."""
    if isinstance(value, str) and "_" in value:
        raise ValueError(value)
    return float(WRITTEN.get(value, value))


def _grade_of(word: str) -> float | None:
    """Return 1 or 0 for a word that says whether a document is relevant; None for another."""
    grades = {1.0: RELEVANT, 0.0: NOT_RELEVANT}
    return next((grade for grade, pattern in grades.items() if pattern.fullmatch(word.strip())), None)


@documents.register
def _of_nothing(value: None, what: str) -> list[Document]:
    return []


@documents.register
def _of_text(value: str, what: str) -> list[Document]:
    return [Document(value)] if value.strip() else []


@documents.register
def _of_cell(value: ListCell, what: str) -> list[Document]:
    return documents(_unpacked(str(value), str, what), what)


@documents.register
def _of_point(value: JsonPoint, what: str) -> list[Document]:
    return [] if is_missing(value) else [Document(str(value))]


def is_missing(value: Any) -> bool:
    """Return whether a row has no value: null, NaN (which pandas writes for it) or an empty text."""
    return value in (None, "") or (isinstance(value, JsonPoint) and value.lower() == "nan")


@documents.register
def _of_number(value: int | float, what: str) -> list[Document]:
    return [Document(written(value))]


@documents.register
def _of_list(value: list | tuple, what: str) -> list[Document]:
    if _are_messages(value):
        contents = (_content(item["content"], what) for item in value)
        return [Document(" ".join(filter(None, contents)))]
    parts = (documents(item, what) or [Document("")] * isinstance(item, str) for item in value)
    return list(itertools.chain.from_iterable(parts))


@documents.register
def _of_object(value: Mapping, what: str) -> list[Document]:
    passages = value.get("passage_text")  # as MS MARCO at the hub has its passages
    if isinstance(passages, list):
        return documents(passages, what)
    if not value or not all(isinstance(item, list) for item in value.values()):
        return [_passage(value, what)]
    if value.keys() & set(TEXT):  # a list of objects, as the library datasets turns it
        refuse_row(len({*map(len, value.values())}) > 1, f"{what} has an object of lists that differ in length")
        return [_passage(dict(zip(value, items, strict=True)), what) for items in zip(*value.values(), strict=True)]
    return _of_list(list(value.values()), what)  # negatives by the system that found them


def _are_messages(items: Sequence[Any]) -> bool:
    """Return whether items are the messages of a chat."""
    return bool(items) and all(isinstance(item, Mapping) and {"role", "content"} <= item.keys() for item in items)


def _passage(value: Mapping[str, Any], what: str) -> Document:
    """Return the document of an object with a text, a title and an id, as Tevatron and DPR have it."""
    texts = {name: text for name, text in value.items() if isinstance(text, str)}
    text = first_value(TEXT, texts)
    refuse_row(text is None, f"{what} has an object without a text: it has {', '.join(map(str, value)) or 'nothing'}")
    title = value.get(TITLE)
    refuse_row(title and TITLE not in texts, f"{what} has a title that is no text")
    score, *more = numbers(value.get("score"), "score") or [None]
    refuse_row(more, f"{what} has an object with {len(more) + 1} scores for one text")
    return Document(titled(title, text), identifier(first_value(IDS, value)), None, score)


def titled(title: Any, text: str) -> str:
    """Return a title and a text joined by a blank."""
    return f"{title} {text}" if title else text


def _content(value: Any, what: str) -> str:
    """Return the text of a chat message: a text, or parts, each a text or an object that may have one."""
    parts = value if isinstance(value, list | tuple) else [] if value is None else [value]
    odd = [type(part).__name__ for part in parts if not isinstance(part, str | Mapping)]
    refuse_row(odd, f"{what} has a message whose content is no text ({''.join(odd[:1])})")
    texts = (part if isinstance(part, str) else part.get("text") for part in parts)
    return " ".join(map(str, filter(None, texts)))


def written(value: Any) -> str:
    """Return a value as it is written in JSON."""
    return str(value).lower() if isinstance(value, bool) else str(value)


_QUOTED = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_ITEM = rf"(?:{_QUOTED}|[\w.]*str_?\({_QUOTED}\)|nan|None|\.\.\.)"
_BETWEEN = r"(?:\s*,\s*|\s+)"  # one way to match each gap: with several, a long text could take forever
_LIST = rf"\[\s*{_ITEM}(?:{_BETWEEN}{_ITEM})*{_BETWEEN}?\]"
_ARRAY = rf"array\({_LIST}(?:,\s*dtype=[^()]*)?\)"
LIKE_LIST = re.compile(rf"{_LIST}|{_ARRAY}|\[\s*{_ARRAY}(?:{_BETWEEN}{_ARRAY})*{_BETWEEN}?\]", re.S)
"""A list of texts as Python, NumPy and pandas print it: quoted texts, `np.str_('a')`, `nan` or None."""


def _unpacked(text: str, kind: type, what: str) -> Any:
    """Return the list that a text is, written by Python or as JSON, as pandas leaves it in a CSV; or the text itself.

    See `written_list`.

    A list of texts that can't be taken apart, as NumPy prints it, is refused.

    Args:
        kind: the class of items by which a list is one; it may have others and nulls too.
    """
    items = written_list(text, kind)
    if items is not None:
        return items
    remedy = "write lists as JSON, or one column per document (negative_1, negative_2)"
    what = f"{what} is a list as NumPy prints it, which can't be taken apart"
    refuse_row(kind is str and LIKE_LIST.fullmatch(text), what, remedy)
    return text


def written_list(text: str, kind: type = str) -> list[Any] | None:
    """Return the list that a text is, written by Python or as JSON; None if it is none."""
    items = _python(text) if text.startswith("[") and text.endswith("]") else None
    is_list = items is not None and (not items or any(item is None or isinstance(item, kind) for item in items))
    return items if is_list else None


def _python(text: str) -> list[Any] | None:
    """Return a list that is written as JSON, or as Python writes it; None if it is none."""
    for read in (json.loads, _literal):
        try:
            items = decoded(text, read)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            continue
        return items if isinstance(items, list) else None
    return None


def _literal(text: str) -> Any:
    items = ast.literal_eval(text)
    if repr(items) != text:
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        kinds = [token.type for token in tokens if token.type != tokenize.NL]
        if (tokenize.STRING, tokenize.STRING) in itertools.pairwise(kinds):  # 'a' 'b' would be one text
            raise ValueError(text)
    return items
