"""Reads topics in the forms of TREC's tracks and of other tools: `<top>`, XML, JSON, CSV and TSV."""

from __future__ import annotations

import csv
import html
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pyrite.ranking.collections.faults import Faults, refuse_row
from pyrite.ranking.collections.json_rows import are, json_rows
from pyrite.ranking.collections.lines import blocks, lines
from pyrite.ranking.collections.names import first_value
from pyrite.ranking.collections.opened import plain_name
from pyrite.ranking.collections.row_files import TextOptions, csv_rows, read_rows, separator_of
from pyrite.ranking.collections.row_values import written
from pyrite.ranking.collections.trec_markup import FIELDS, topics
from pyrite.ranking.errors import BadInput, refuse

NUMBERS = (
    "number", "num", "qid", "query_id", "query-id", "_id", "id", "topic_id", "identifier", "topic", "topicid", "q",
)  # fmt: skip
UTTERANCES = (
    "manual_rewritten_utterance", "automatic_rewritten_utterance", "raw_utterance", "utterance", "resolved_utterance",
)  # fmt: skip
"""The text of a turn of a conversation, the one that can be understood alone first."""
TURNS = ("turn", "turns")
TEXTS: Mapping[str, tuple[str, ...]] = {
    "title": ("title", "query", "text", "question", "query_text", "topic", *UTTERANCES),
    "description": (*FIELDS["description"], "question", "summary"),
    "narrative": (*FIELDS["narrative"], "background", "note"),
}
"""Names of a topic's fields in XML, JSON and headers."""
NAMES_OF_TEXTS = frozenset(name for names in TEXTS.values() for name in names)
Row = tuple[int, Mapping[str, Any]]
"""The line of a topic, and its fields by name."""


def read_topics(
    file: Path, fields: Sequence[str], faults: Faults, encoding: str
) -> Iterator[tuple[str, str, None, None, str, int]]:
    """Yield topics as queries: id, the joined texts of the fields, no category, no subcategory, file, line.

    Raises:
        BadInput: if the file can't be read, or has no topics.
    """
    count = 0
    for line, number, texts in topic_rows(file, faults, encoding):
        count += 1
        filled = {name: text for name, text in texts.items() if text}
        missing = [field for field in fields if not filled.keys() & TEXTS[field]]
        if missing:
            remedy = f"it has {', '.join(filled) or 'nothing else'}; choose by collection.fields, "
            remedy += "or set strict=false to leave such topics out"
            faults.report("broken line", f"the topic {number} has no {missing[0]}", file, line, remedy=remedy)
            continue
        yield number, " ".join(first_value(TEXTS[field], filled) for field in fields), None, None, str(file), line
    if not count:
        faults.report("empty file", "has no topics", file)


def topic_rows(file: Path, faults: Faults, encoding: str) -> Iterator[tuple[int, str, dict[str, str]]]:
    """Yield the line, id and texts by name (in lower case) of each topic.

    Args:
        file: a file with `<top>` elements; XML, as of TREC-COVID, the web tracks and the clinical ones; JSON lines, a
            list or an object of topics; parquet; or columns of numbers and texts (title, description, narrative), with
            or without a header.
        faults: receives each topic without a number, and each broken line.

    Raises:
        BadInput: if the file can't be read.
    """
    for line, topic in faults.read_each(_rows(file, faults, encoding), _topic, file):
        yield line, *topic


def _topic(row: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """Return the id and the texts of a topic."""
    values = {str(name).lower(): value for name, value in row.items() if value is not None}
    numbers = [name for name in NUMBERS if str(values.get(name, "")).strip()]
    number = values.get("".join(numbers[:1]))
    refuse_row(number is None or isinstance(number, (list, dict)), "a topic without a number")
    fields = NAMES_OF_TEXTS - {*numbers[:1]}
    texts = {name: value for name, value in values.items() if name in fields}
    for name, value in texts.items():
        refuse_row(isinstance(value, (list, dict)), f"the {name} of topic {number} is no text")
    return written(number).strip(), {name: str(value).strip() for name, value in texts.items()}


def _rows(file: Path, faults: Faults, encoding: str) -> Iterator[Row]:
    if file.name.lower().endswith(".parquet"):
        return read_rows(file, faults)
    head = next((text for _, text in blocks(file, Faults(strict=False), encoding)), "").lstrip("\ufeff \t\r\n")
    read = next((read for fits, read in FORMS if fits(file, head)), topics)  # which names the fault
    return read(file, faults, encoding)


def _xml(file: Path, faults: Faults, encoding: str) -> Iterator[Row]:
    text = "".join(text for _, text in blocks(file, faults, encoding))
    # Entities of HTML, a bare & and several roots are no XML, and topics have them. Lines keep their numbers.
    heads = r"^\s*<\?xml[^>]*\?>|<!DOCTYPE[^>\[]*(\[[^\]]*\])?[^>]*>"
    text = re.sub(heads, lambda head: "\n" * head[0].count("\n"), text)
    entities = r"&(?!(amp|lt|gt|quot|apos);|#)(\w+;)?"
    text = re.sub(entities, lambda entity: html.escape(html.unescape(entity[0]), quote=False), text)
    try:
        root = ET.fromstring(f"<all>{text}</all>")
    except ET.ParseError as error:
        line = error.position[0]
        raise BadInput(f"is not XML ({error})", f"{file}:{line}", "write & as &amp;, and close each element") from None
    for element in root.iter():
        element.tag = element.tag.rsplit("}", 1)[-1]  # without its namespace
    topics_of_file = (element for element in root.iter() if element.tag.lower() in ("topic", "top", "query"))
    elements = list(filter(_number, topics_of_file))
    refuse(not elements, "has no topics with a number", file, 'write <topic number="1"><title>…</title></topic>')
    yield from enumerate(map(_parts, elements), 1)


def _number(element: ET.Element) -> str:
    """Return the number of a topic, an attribute or an element; empty for an element that is no topic."""
    named = [*((child.tag, child.text or "") for child in element), *element.attrib.items()]
    values = {name.lower(): text.strip() for name, text in named if text.strip()}
    return re.sub(r"^number\s*:\s*", "", first_value(NUMBERS, values) or "", flags=re.I)


def _parts(element: ET.Element) -> dict[str, Any]:
    parts: dict[str, str] = {}
    for child in element:
        parts.setdefault(child.tag.lower(), _text_of(child))
    parts |= {"number": _number(element)} | ({} if len(element) else {"title": _text_of(element)})
    return {name: text for name, text in parts.items() if name != "subtopic"}


def _text_of(element: ET.Element) -> str:
    return " ".join("".join(element.itertext()).split())


def _is_header(cells: Sequence[str]) -> bool:
    """Return whether cells name the columns of a number and a text."""
    names = {cell.strip().lower() for cell in cells}
    return bool(names & {*NUMBERS} and names & NAMES_OF_TEXTS)


def _json(file: Path, faults: Faults, encoding: str) -> Iterator[Row]:
    """Yield the topics of a file of JSON."""
    for number, entry in json_rows(file, faults, encoding):
        yield from ((number, topic) for found in _topics_of(entry) for topic in _turns_of(found))


def _topics_of(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the topics of an object: itself, those in a list of it, or one per key, which is the number."""
    if {*map(str.lower, entry)} & {*NUMBERS}:
        return [entry]
    lists = [value for value in entry.values() if isinstance(value, list)]
    if len(lists) == 1 and are(dict, lists[0]):
        return lists[0]
    if {"query", "positive"} <= entry.keys():  # a list of a number and a text
        return [{"number": entry["query"], "title": entry["positive"]}]
    return [{"number": number} | _texts_of(value) for number, value in entry.items()]


def _texts_of(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {"title": value}


def _turns_of(topic: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return a topic, or the turns of a conversation as TREC CAsT has them, which are topics by two numbers: 31_1."""
    turns = first_value(TURNS, topic)
    number = first_value(NUMBERS, topic)
    if not isinstance(turns, list) or not are(dict, turns):
        return [topic]
    return [{**turn, "number": f"{number}_{first_value(NUMBERS, turn)}"} for turn in turns]


def _columns(file: Path, faults: Faults, encoding: str, separator: str) -> Iterator[Row]:
    """Yield the topics of a file of numbers and texts, which may begin with a header."""
    header = ["number", "title", "description", "narrative"]
    ahead = True
    for number, line in lines(file, faults, encoding):
        cells = _cells(line.rstrip("\r"), separator)
        named = ahead and _is_header(cells)
        header = [cell.strip().lower() for cell in cells] if named else header
        ahead = False
        if not 2 <= len(cells) <= len(header):
            what = f"not a number and a text between {separator!r}" if len(cells) < 2 else f"{len(cells)} columns"
            faults.report("broken line", what, file, number)
        elif not named:
            yield number, dict(zip(header, cells, strict=False))


def _cells(line: str, separator: str) -> list[str]:
    if separator == ":":
        return re.split(r":(?:\d+:)?", line, maxsplit=1)  # some have a priority in between
    return line.split("\t") if separator == "\t" else next(csv.reader([line], delimiter=separator))


def _is_table(file: Path, head: str) -> bool:
    """Return whether the first line is a header."""
    line = head.split("\n", 1)[0].rstrip("\r")
    return _is_header(next(csv.reader([line], delimiter=separator_of(line)), []))


def _table(file: Path, faults: Faults, encoding: str) -> Iterator[Row]:
    return csv_rows(file, faults, TextOptions(None, encoding))


def _csv(file: Path, faults: Faults, encoding: str) -> Iterator[Row]:
    """Yield the topics of a CSV file without a header."""
    line = next((line for _, line in lines(file, Faults(strict=False), encoding)), "")
    return _columns(file, faults, encoding, separator_of(line.rstrip("\r")))


_Reader = Callable[[Path, Faults, str], Iterator[Row]]
FORMS: tuple[tuple[Callable[[Path, str], Any], _Reader], ...] = (
    (lambda file, head: re.search(r"<top\b[^<>]*>", head, re.I), topics),
    (lambda file, head: head.startswith("<"), _xml),
    (lambda file, head: head.startswith(("{", "[")), _json),
    (lambda file, head: "\t" in head.split("\n", 1)[0], partial(_columns, separator="\t")),
    (_is_table, _table),
    (lambda file, head: plain_name(file).endswith(".csv"), _csv),
    (lambda file, head: re.match(r"\d+:", head), partial(_columns, separator=":")),  # of the Million Query tracks
)
"""The forms of topics, by the beginning of the file, in the order in which they are tried, and how each is read."""
