"""Reads judgements that people made elsewhere: our table, and the exports of Label Studio and doccano."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from pyrite.pooling.judging.export import FORMULA
from pyrite.ranking.collections.run_dialects import QREL_NAMES
from pyrite.ranking.errors import BadInput

NAMES: Mapping[str, Sequence[str]] = {
    "topic": ("topic", *QREL_NAMES["query"]),
    "document": ("document", *QREL_NAMES["document"]),
    "grade": ("grade", *QREL_NAMES["grade"], "label"),
    "assessor": ("assessor", "annotator", "username", "user"),
    "time": ("time", "created_at", "updated_at"),
    "note": ("note", "comment"),
    "rationale": ("rationale",),
}
"""What a judgement consists of, and its names in tables and in the objects of JSON."""
CANNOT = frozenset({"", "can't judge", "can’t judge"})
"""Grades of documents that the assessor could not judge."""


class Made(NamedTuple):
    """A judgement that was made elsewhere.

    Args:
        grade: None if the assessor could not judge the document.
        at: seconds since 1970; 0 if it is not known.
    """

    topic: str
    document: str
    grade: int | None
    assessor: str
    at: float
    note: str
    rationale: str


def read_made(path: str | Path, words: Mapping[str, int]) -> list[Made]:
    """Read the judgements in a file of one of the `FORMS`, in its order.

    Args:
        words: the grades of this pool by their names in lower case.

    Raises:
        BadInput: with the place, for a line without topic or document, or with a grade that the pool lacks.
    """
    path = Path(path)
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"can't be read ({getattr(error, 'strerror', None) or error})", path) from None
    form = FORMS.get(path.suffix.lower())
    if form is None:
        known = ", ".join(FORMS)
        remedy = f"name it by what it is: {known} (our table, Label Studio's JSON, doccano's JSON lines)"
        raise BadInput(f"judgements are not imported from {path.suffix or 'a file without an ending'}", path, remedy)
    made = [_made(path, place, fields, words) for place, fields in form(path, text)]
    if not made:
        raise BadInput("no judgements in it", path)
    return made


def _table(path: Path, text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows of a table with a header, by their lines."""
    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    rows = csv.DictReader(io.StringIO(text), delimiter=separator, restval="")
    for row in rows:
        yield rows.line_num, _named({name: _plain(value or "") for name, value in row.items() if name})


def _tasks(path: Path, text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the annotations of Label Studio's tasks: a choice or rating, and what was written and marked beside it."""
    for place, task in enumerate(_objects(path, _parsed(path, 1, text)), 1):
        for each in task.get("annotations") or task.get("completions") or []:
            if each.get("was_cancelled"):
                continue
            by = each.get("completed_by", "")
            assessor = (by.get("email") or by.get("id")) if isinstance(by, dict) else by
            values = [found.get("value", {}) for found in each.get("result", [])]
            yield (
                place,
                _named(task.get("data", {}))
                | {
                    "grade": _first(
                        _text(value.get(key)) for value in values for key in ("choices", "rating", "number")
                    ),
                    "note": _first(_text(value.get("text")) for value in values if "labels" not in value),
                    "rationale": _first(_text(value.get("text")) for value in values if "labels" in value),
                    "assessor": _text(assessor),
                    "time": str(each.get("updated_at") or each.get("created_at") or ""),
                },
            )


def _lines(path: Path, text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield doccano's lines. It exports a file for each annotator, under their name, and calls notes Comments."""
    for place, line in enumerate(text.splitlines(), 1):
        if line.strip():
            (row,) = _objects(path, [_parsed(path, place, line)])
            inside = row.get("meta") or row.get("metadata") or {}
            fields = _named({**(inside if isinstance(inside, dict) else {}), **row})
            labels = row.get("label", row.get("labels"))
            said = [each.get("text", "") if isinstance(each, dict) else each for each in row.get("Comments") or []]
            grade = {"grade": _text(labels)} if isinstance(labels, list) else {}
            note = {"note": "; ".join(map(str, said))} if said else {}
            yield place, {"assessor": path.stem} | fields | grade | note


FORMS: Mapping[str, Callable[[Path, str], Iterator[tuple[int, dict[str, str]]]]] = {
    ".csv": _table, ".tsv": _table, ".json": _tasks, ".jsonl": _lines,
}  # fmt: skip
"""The readers by the ending of a file's name: each yields places in the file and fields by the keys of `NAMES`."""


def _made(path: Path, place: int, fields: Mapping[str, str], words: Mapping[str, int]) -> Made:
    where = f"{path}:{place}"
    for name in ("topic", "document", "assessor"):
        if not fields.get(name):
            known = ", ".join(NAMES[name])
            raise BadInput(f"a judgement without {name}", where, f"name it by one of {known}")
    word = fields.get("grade", "").strip().lower()
    grade = words.get(word)
    if grade is None and word not in CANNOT:
        known = ", ".join(words)
        raise BadInput(f"grade {word!r} is none of this pool's ({known})", where, "give labels= with these words")
    texts = (fields.get(name, "") for name in ("note", "rationale"))
    return Made(fields["topic"], fields["document"], grade, fields["assessor"], _seconds(fields, where), *texts)


def _seconds(fields: Mapping[str, str], where: str) -> float:
    if not (text := fields.get("time", "")):
        return 0.0
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadInput(f"{text!r} is no time", where, "write it as 2026-01-31T12:00:00Z, or leave it empty") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _named(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields of a row by the keys of `NAMES`; of several names the first counts."""
    lowered = {str(key).lower(): value for key, value in row.items()}
    found = {name: [_text(lowered[each]) for each in names if each in lowered] for name, names in NAMES.items()}
    return {name: values[0] for name, values in found.items() if values}


def _parsed(path: Path, place: int, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BadInput("no JSON", f"{path}:{place}") from None


def _objects(path: Path, content: Any) -> list[dict[str, Any]]:
    if not isinstance(content, list) or not all(isinstance(each, dict) for each in content):
        raise BadInput("not a list of objects", path, "export tasks from Label Studio as JSON (not JSON-MIN)")
    return content


def _text(value: Any) -> str:
    """Return a value as text; of a list the first."""
    if isinstance(value, list):
        return _text(value[0]) if value else ""
    return "" if value is None else str(value)


def _first(texts: Iterable[str]) -> str:
    return next(filter(None, texts), "")


def _plain(text: str) -> str:
    """Return a text of a table without the apostrophe by which `pyrite judge` keeps it from being a formula."""
    return text[1:] if text.startswith("'") and text[1:].startswith(FORMULA) else text
