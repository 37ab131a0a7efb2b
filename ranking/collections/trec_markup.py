"""Parses TREC's markup of documents and topics by its tags alone: it looks like XML and is not."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.collections.lines import blocks

_TAG = re.compile(r"</?[a-zA-Z!?][^<>]*>")
_DOCNO = re.compile(r"<docno>\s*(.*?)\s*</docno>", re.S | re.I)
_DOCID = re.compile(r"<(docid|id)>\s*(.*?)\s*</\1>", re.S | re.I)
_QUOTED = re.compile(r"\b(?:id|docid|docno|num|number)\s*=\s*[\"']([^\"']*)[\"']", re.I)
_UNQUOTED = re.compile(r"\b(?:id|docid|docno|num|number)\s*=\s*([^\s\"'>]+)", re.I)
# News has its text and headline in separate elements, next to dates, bylines and subject codes. Other documents
# have all their text outside of elements, next to what only serves machines.
_BODY = re.compile(r"<text\b", re.I)
_PARTS = re.compile(r"<(title|headline|head|hl|ttl|ti|leadpara|lp|text)\b[^<>]*>(.*?)</\1\s*>", re.S | re.I)
_MACHINE = re.compile(r"<(docno|docid|id|dochdr|script|style)\b[^<>]*>.*?</\1\s*>|<!--.*?-->", re.S | re.I)
_UNKNOWN_ENTITY = re.compile(r"&[a-zA-Z]+;")

FIELDS = {"title": ("title",), "description": ("desc", "description"), "narrative": ("narr", "narrative")}
_LABEL = re.compile(r"^\s*(number|topic|description|narrative)\s*:", re.I)
_FIELD = re.compile(r"<(/?)(\w+)[^<>]*>")


def documents(file: Path, faults: Faults, encoding: str) -> Iterator[tuple[object, ...]]:
    """Yield the documents between `<DOC>` and `</DOC>`: id, text, no category, no subcategory, file, line.

    The id is the `<DOCNO>`, the attribute `id` of the `<DOC>`, as newswire of the LDC has it, or the `<DOCID>`.
    """
    for line, attributes, marked in _elements("doc", file, faults, encoding):
        number = _DOCNO.search(marked) or _attribute(attributes) or _DOCID.search(marked)
        if number is None:
            faults.report("broken line", "a document without <DOCNO>, and without an id in its <DOC>", file, line)
            continue
        parts = [part[1] for part in _PARTS.findall(marked)] if _BODY.search(marked) else [_MACHINE.sub(" ", marked)]
        yield number[number.re.groups], _plain(" ".join(parts)), None, None, str(file), line


def topics(file: Path, faults: Faults, encoding: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the line and the texts by tag of the topics after each `<top>`; `num` is the number.

    The elements inside need no closing tags, and may begin with a label such as `Number:` or `Description:`.
    """
    for line, attributes, marked in _elements("top", file, faults, encoding):
        # Text, then (slash, tag, text) again and again; what follows a closing tag belongs to nothing.
        _, *pieces = _FIELD.split(marked)
        texts: dict[str, str] = {}
        for slash, tag, text in zip(*[iter(pieces)] * 3, strict=True):
            if not slash:
                texts.setdefault(tag.lower(), " ".join(_plain(_LABEL.sub("", text)).split()))
        if not texts.get("num"):
            texts["num"] = attribute[1] if (attribute := _attribute(attributes)) else ""
        yield line, texts


def _attribute(attributes: str) -> re.Match[str] | None:
    """Return the match of an id among the attributes of a tag."""
    return _QUOTED.search(attributes) or _UNQUOTED.search(attributes)


def _elements(tag: str, file: Path, faults: Faults, encoding: str) -> Iterator[tuple[int, str, str]]:
    """Yield the line where each `<tag>` begins, its attributes, and the text up to `</tag>`.

    A topic's closing tag may be missing; a document's may not, because then the document may have been cut.
    """
    tags = re.compile(rf"<(/?){tag}(\s[^<>]*)?>", re.I)
    inside: list[str] | None = None
    begin, attributes = 0, ""

    def left_open() -> Iterator[tuple[int, str, str]]:
        if inside is not None and tag == "doc":
            faults.report("broken line", "a document without </DOC>", file, begin)
        elif inside is not None:
            yield begin, attributes, "".join(inside)

    for line, text in blocks(file, faults, encoding):
        position = 0
        for match in tags.finditer(text):
            piece = text[position : match.start()]
            _append(piece, inside, tag, faults, file, line)
            line += text.count("\n", position, match.end())
            position = match.end()
            if not match[1]:
                yield from left_open()
                inside, begin, attributes = [], line, match[2] or ""
            elif inside is None:
                faults.report("broken line", f"</{tag}> without <{tag}>", file, line)
            else:
                yield begin, attributes, "".join(inside)
                inside = None
        _append(text[position:], inside, tag, faults, file, line)
    yield from left_open()


def _append(piece: str, inside: list[str] | None, tag: str, faults: Faults, file: Path, line: int) -> None:
    """Append text that is inside of an element; outside there should be only tags and blanks."""
    if inside is not None:
        inside.append(piece)
    elif text := _TAG.sub("", piece).strip():
        line += piece.count("\n", 0, piece.find(text.split(maxsplit=1)[0]))
        what = "of documents" if tag == "doc" else "of topics, which <top>, XML, JSON or columns hold"
        faults.report("broken line", f"text outside of <{tag}>: is it a file {what}?", file, line)


def _plain(marked: str) -> str:
    """Return text without tags and entities."""
    text = _TAG.sub(" ", marked)
    return _UNKNOWN_ENTITY.sub(" ", html.unescape(text)) if "&" in text else text
