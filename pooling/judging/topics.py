"""Reads topics: title, description and narrative."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import polars as pl

from ranking.collections import trec_markup
from ranking.collections.faults import Faults
from ranking.collections.lines import blocks, lines
from ranking.errors import BadInput

_IDS = ("number", "num", "_id", "id", "qid", "query_id", "query-id", "topic", "topic_id", "topicid", "topic-id")
"""Names of a topic's id in XML, JSON and tables."""
_TEXTS: Mapping[str, tuple[str, ...]] = {
    "title": ("title", "query", "text"),
    "description": ("description", "desc", "question", "summary"),
    "narrative": ("narrative", "narr", "background", "note"),
}
"""Names of a topic's texts there."""


class TopicText(NamedTuple):
    """A topic's texts; any of the three may be empty."""

    title: str = ""
    description: str = ""
    narrative: str = ""


def read_topics(path: str | Path, encoding: str = "utf-8") -> dict[str, TopicText]:
    """Read topics by their ids, plain or compressed.

    The beginning determines the form:

    - `<top>`: TREC's markup.
    - `<`: XML as of TREC since 2014, `<topic>` elements with the id as an attribute or an element (`number`), and
      `query` or `title`, `description` and `narrative`.
    - `{` or `[`: JSON lines, or one list of objects, with `_id` or `id`, then `text` or `title`, `description` and
      `narrative`; or one object of texts by id.
    - Otherwise lines of an id, a tab and the text, and after further tabs description and narrative. A first line of
      names (`qid`, `query`, …) is the header of a table with tabs or commas.

    Raises:
        BadInput: a broken line, an id that comes twice, or a file without topics.
    """
    _, first = next(lines(path, Faults(), encoding), (0, ""))
    topics: dict[str, TopicText] = {}
    for line, name, text in _entries(Path(path), first.lstrip(), encoding):
        if name in topics:
            raise BadInput(f"another topic is called {name!r}", f"{path}:{line}")
        topics[name] = text
    if not topics:
        raise BadInput("no topics in it", path)
    return topics


def topics_of(queries: pl.DataFrame) -> dict[str, TopicText]:
    """Return the queries of a collection: id, text."""
    return {name: TopicText(text) for name, text in queries.select("id", "text").iter_rows()}


def _entries(path: Path, first: str, encoding: str) -> Iterator[tuple[int, str, TopicText]]:
    """Yield line, id and texts of each topic."""
    if first.startswith("<"):
        content = "".join(text for _, text in blocks(path, Faults(), encoding))
        return _trec(path, encoding) if "<top>" in content.lower() else _xml(path, content)
    if first.startswith(("{", "[")):
        return _json_topics(path, encoding)
    separator = "," if first.count(",") > first.count("\t") else "\t"
    names = [name.strip().lower() for name in next(csv.reader([first], delimiter=separator))]
    if set(names) & set(_IDS) and any(set(names) & set(texts) for texts in _TEXTS.values()):
        return _table(path, encoding, separator, names)
    return _rows(path, encoding)


def _trec(path: Path, encoding: str) -> Iterator[tuple[int, str, TopicText]]:
    def parts(faults: Faults, *fields: str) -> Iterable[tuple[object, ...]]:
        return trec_markup.topics(path, fields, faults, encoding)

    # A topic may lack any of the three; the parser raises an error if it is read then.
    by_field = [{str(row[0]): str(row[1]) for row in parts(Faults(strict=False), field)} for field in TopicText._fields]
    for name, *_, line in parts(Faults()):
        yield int(str(line)), str(name), TopicText(*(texts.get(str(name), "") for texts in by_field))


def _xml(path: Path, content: str) -> Iterator[tuple[int, str, TopicText]]:
    try:
        root = ElementTree.fromstring(content.lstrip().encode())
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise BadInput(f"neither TREC's <top> nor XML ({error})", path) from None
    for number, topic in enumerate((element for element in root.iter() if element.tag == "topic"), 1):
        fields = {key.lower(): value for key, value in topic.attrib.items()}
        for child in topic:
            text = " ".join("".join(child.itertext()).split())
            tag = child.tag.lower()
            fields[tag] = f"{fields[tag]} {text}" if tag in fields and tag not in topic.attrib else text
        try:
            yield number, *_of_fields(fields)
        except ValueError as error:
            raise BadInput(f"topic {number}: {error}", path) from None


def _json_topics(path: Path, encoding: str) -> Iterator[tuple[int, str, TopicText]]:
    content = "".join(text for _, text in blocks(path, Faults(), encoding))
    try:
        whole = json.loads(content)
    except ValueError:
        whole = None
    known = {*_IDS, *(name for names in _TEXTS.values() for name in names)}
    if whole is None or (isinstance(whole, dict) and set(map(str.lower, whole)) & known):
        yield from _json_lines(path, encoding)
        return
    if isinstance(whole, dict):
        whole = [({"id": name} | (text if isinstance(text, dict) else {"text": text})) for name, text in whole.items()]
    for number, entry in enumerate(whole if isinstance(whole, list) else [whole], 1):
        try:
            yield number, *_of_entry(entry)
        except ValueError as error:
            raise BadInput(f"topic {number}: {error}", path) from None


def _json_lines(path: Path, encoding: str) -> Iterator[tuple[int, str, TopicText]]:
    for number, line in lines(path, Faults(), encoding):
        try:
            yield number, *_of_entry(json.loads(line))
        except ValueError as error:
            raise BadInput(f"broken line: {error}", f"{path}:{number}") from None


def _table(path: Path, encoding: str, separator: str, names: list[str]) -> Iterator[tuple[int, str, TopicText]]:
    rows = iter(lines(path, Faults(), encoding))
    next(rows)
    for number, line in rows:
        fields = next(csv.reader([line.rstrip("\r")], delimiter=separator))
        if len(fields) != len(names):
            raise BadInput(f"broken line: {len(fields)} columns instead of {len(names)}", f"{path}:{number}")
        try:
            yield number, *_of_fields(dict(zip(names, fields, strict=True)))
        except ValueError as error:
            raise BadInput(f"broken line: {error}", f"{path}:{number}") from None


def _rows(path: Path, encoding: str) -> Iterator[tuple[int, str, TopicText]]:
    for number, line in lines(path, Faults(), encoding):
        name, *texts = (field.strip() for field in line.split("\t"))
        if not name or not 1 <= len(texts) <= 3:
            raise BadInput("broken line: not an id, a tab and a text", f"{path}:{number}")
        yield number, name, TopicText(*texts)


def _of_entry(entry: Any) -> tuple[str, TopicText]:
    if not isinstance(entry, dict):
        raise ValueError("not a JSON object")
    fields = {}
    for key, value in entry.items():
        whole = isinstance(value, int) and not isinstance(value, bool)
        if key.lower() in _IDS and (isinstance(value, str) or whole):
            fields[key.lower()] = str(value)
        elif any(key.lower() in names for names in _TEXTS.values()) and value is not None:
            if not isinstance(value, str):
                raise ValueError("a text that is not a string")
            fields[key.lower()] = value
    return _of_fields(fields)


def _of_fields(fields: Mapping[str, str]) -> tuple[str, TopicText]:
    """Return id and texts from fields by their names, of which the first that has a text counts."""
    name = next((fields[key].strip() for key in _IDS if fields.get(key, "").strip()), "")
    if not name:
        raise ValueError("no id (number, _id, id or qid)")
    return name, TopicText(*(next((fields[key] for key in keys if fields.get(key)), "") for keys in _TEXTS.values()))
