"""Reads topics: title, description and narrative."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import polars as pl

from ranking.collections import trec_markup
from ranking.collections.faults import Faults
from ranking.collections.lines import lines
from ranking.errors import BadInput


class TopicText(NamedTuple):
    """A topic's texts; any of the three may be empty."""

    title: str = ""
    description: str = ""
    narrative: str = ""


def read_topics(path: str | Path, encoding: str = "utf-8") -> dict[str, TopicText]:
    """Read topics by their ids, plain or .gz.

    The first character determines the form: `<`, TREC's `<top>`; `{`, JSON lines (`_id` or `id`, then `text` or
    `title`, `description` and `narrative`); otherwise lines of an id, a tab and the text, and after further tabs
    description and narrative.

    Raises:
        BadInput: a broken line, an id that comes twice, or a file without topics.
    """
    faults = Faults()
    _, first = next(lines(path, faults, encoding), (0, ""))
    begin = first.lstrip()[:1]
    read = _trec(Path(path), encoding) if begin == "<" else _rows(Path(path), encoding, begin == "{")
    topics: dict[str, TopicText] = {}
    for line, name, text in read:
        if name in topics:
            raise BadInput(f"another topic is called {name!r}", f"{path}:{line}")
        topics[name] = text
    if not topics:
        raise BadInput("no topics in it", path)
    return topics


def topics_of(queries: pl.DataFrame) -> dict[str, TopicText]:
    """Return the queries of a collection: id, text."""
    return {name: TopicText(text) for name, text in queries.select("id", "text").iter_rows()}


def _trec(path: Path, encoding: str) -> Iterator[tuple[int, str, TopicText]]:
    def parts(faults: Faults, *fields: str) -> Iterable[tuple[object, ...]]:
        return trec_markup.topics(path, fields, faults, encoding)

    # A topic may lack any of the three; the parser raises an error if it is read then.
    found = [{str(row[0]): str(row[1]) for row in parts(Faults(strict=False), field)} for field in TopicText._fields]
    for name, *_, line in parts(Faults()):
        yield int(str(line)), str(name), TopicText(*(texts.get(str(name), "") for texts in found))


def _rows(path: Path, encoding: str, json_lines: bool) -> Iterator[tuple[int, str, TopicText]]:
    for number, line in lines(path, Faults(), encoding):
        try:
            yield number, *(_json(line) if json_lines else _tabbed(line))
        except ValueError as error:
            raise BadInput(f"broken line: {error}", f"{path}:{number}") from None


def _tabbed(line: str) -> tuple[str, TopicText]:
    name, *texts = (field.strip() for field in line.split("\t"))
    if not name or not 1 <= len(texts) <= 3:
        raise ValueError("not an id, a tab and a text")
    return name, TopicText(*texts)


def _json(line: str) -> tuple[str, TopicText]:
    entry = json.loads(line)
    if not isinstance(entry, dict):
        raise ValueError("not a JSON object")
    name = entry.get("_id", entry.get("id"))
    if not isinstance(name, str | int) or isinstance(name, bool) or name == "":
        raise ValueError("no `_id`")
    texts = [entry.get(field) or "" for field in TopicText._fields]
    texts[0] = texts[0] or entry.get("text") or ""
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a text that is not a string")
    return str(name), TopicText(*texts)
