"""Reads judgements and runs from JSON: an object per line or per file, with the names that other tools use."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from pyrite.ranking.collections.faults import Faults, RowFault, refuse_row
from pyrite.ranking.collections.json_rows import are, decoded, json_lines, parsed
from pyrite.ranking.collections.names import DOCUMENT_IDS, GRADES, QUERY_IDS, first, first_value
from pyrite.ranking.collections.opened import encoding_of, open_bytes
from pyrite.ranking.errors import BadInput

Row = tuple[Any, Any, Any, Any]
"""Query, document, grade or score, and tag, as they are written; the tag may be None."""
NESTED = (
    ("query", ("query", "topic", "question"), (*QUERY_IDS, "id", "_id")),
    ("document", ("document", "doc", "candidate", "passage", "hit"), (*DOCUMENT_IDS, "id", "_id")),
    (
        "grade", ("judgment", "judgement", "response", "output", "answer", "result", "prediction", "annotation"),
        (*GRADES, "score"),
    ),
)  # fmt: skip
"""Our fields, the objects in which tools write them, and their names inside: prompts and answers of language models."""
LISTS = (
    "candidates", "results", "hits", "documents", "docs", "ranking", "passages", "judgments", "judgements", "qrels",
)  # fmt: skip
"""The names of a list of a query's documents."""


class Object(list[tuple[str, Any]]):
    """A JSON object, whose names may be there more than once."""


def json_judgements(
    path: str | Path, head: Sequence[str], value: str, names: Mapping[str, Sequence[str]], faults: Faults, encoding: str
) -> Iterator[tuple[Row, int]]:
    """Yield the rows of a file and their lines.

    An entry is an object of a query, a document and a value; a query with a list of documents; or queries with their
    documents: {query: {document: value}}, or {query: [document, …]}, a ranking or relevant documents.

    Args:
        path: JSON lines, a list or one object.
        head: its first lines.
        value: the name of the value: `grade` or `score`.
        names: our names of fields, and those of other tools.
        faults: receives each entry that is none of these.

    Raises:
        BadInput: if the file is not JSON.
    """
    for line, entry in _entries(Path(path), head, faults, encoding):
        try:
            yield from ((row, line) for row in _rows(entry, value, names))
        except RowFault as fault:
            faults.report_row(fault, path, line)


def _entries(path: Path, head: Sequence[str], faults: Faults, encoding: str) -> Iterator[tuple[int, Any]]:
    by_line = parsed(head[0]) is not None or (len(head) > 1 and head[0][:1] == head[1][:1] == "{")
    entries = json_lines(path, faults, encoding, parse=_parse) if by_line else _whole(path, encoding)
    for line, entry in entries:
        yield from enumerate(entry, line) if type(entry) is list else [(line, entry)]


def _whole(path: Path, encoding: str) -> Iterator[tuple[int, Any]]:
    try:
        with open_bytes(path) as stream:
            yield 1, _parse(stream.read().decode(encoding_of(path, encoding)))
    except (ValueError, RecursionError) as error:
        raise BadInput(f"can't be read as JSON ({error})", path) from None


def _parse(text: str) -> Any:
    """Parse JSON; numbers stay as they are written."""
    return decoded(text, partial(json.loads, parse_int=str, parse_float=str, object_pairs_hook=Object))


def _rows(entry: Any, value: str, names: Mapping[str, Sequence[str]]) -> Iterable[Row]:
    if not isinstance(entry, Object):
        raise RowFault(f"not a JSON object of query, document and {value}")
    fields, given = _fields(entry, names), dict(entry)
    lacks = [name for name in ("query", "document") if name not in fields]
    if not lacks:
        return [_row(fields["query"], fields, value)]
    listed = first(LISTS, given)
    if lacks == ["document"] and listed is not None:
        return _documents(fields["query"], given[listed], value, names)
    if given and are(list, given.values()):
        return itertools.chain.from_iterable(_documents(*pair, value, names) for pair in entry)
    what = f"not a JSON object of query, document and {value}: the {lacks[0]} is missing, "
    what += f"it has {', '.join(given) or 'nothing'}"
    raise RowFault(what, f"call it {names[lacks[0]][0]}, or write {{query: {{document: {value}}}}}")


def _row(query: Any, fields: Mapping[str, Any], value: str) -> Row:
    """Return a row from its fields; a run without scores is ordered by its ranks."""
    ranks = {"score": f"-{fields['rank']}"} if "rank" in fields else {}
    values = ranks | dict(fields)
    refuse_row(value not in values, f"no {value}: it has {', '.join(fields)}")
    return query, fields["document"], values[value], fields.get("tag")


def _documents(query: Any, documents: Any, value: str, names: Mapping[str, Sequence[str]]) -> Iterator[Row]:
    """Yield the documents of a query: those of an object with their values, or a list in its order."""
    if isinstance(documents, Object):
        for document, given in documents:
            inner = {"document": document, value: given}
            if isinstance(given, Object):
                inner = _fields(given, names) | {"document": document}
            yield _row(query, inner, value)
        return
    for place, item in enumerate(documents if isinstance(documents, list) else [None]):
        if isinstance(item, Object):
            yield _row(query, _fields(item, names), value)
        elif isinstance(item, list) and len(item) == 2:
            yield query, item[0], item[1], None
        elif isinstance(item, str):  # relevant documents, or a ranking
            yield query, item, -place if value == "score" else 1, None
        else:
            raise RowFault(f"the query {query!r} has no documents", f"write {{query: {{document: {value}}}}}")


def _fields(entry: Object, names: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the values of an object by our names, also those within its objects."""
    fields = dict(entry)
    within = {name: dict(inner) for name, inner in entry if isinstance(inner, Object)}
    if within:
        found = (
            (ours, first_value(inner, within.get(first(outer, within) or "", {}))) for ours, outer, inner in NESTED
        )
        fields |= {ours: inside for ours, inside in found if inside is not None}
    chosen = _chosen(tuple(fields), tuple(names.items()))
    return {ours: fields[name] for ours, name in chosen}


@lru_cache
def _chosen(keys: tuple[str, ...], names: tuple[tuple[str, Sequence[str]], ...]) -> list[tuple[str, str]]:
    """Return our name and the key of each field."""
    lowered = {key.lower(): key for key in reversed(keys)}
    return [(ours, lowered[name]) for ours, theirs in names if (name := first(theirs, lowered)) is not None]
