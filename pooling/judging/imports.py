"""Reads judgements that people made elsewhere: our table, and the exports of Label Studio and doccano."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.collections.judgement_files import FORMULA
from pyrite.ranking.collections.names import first
from pyrite.ranking.collections.opened import plain_name
from pyrite.ranking.collections.row_files import read_rows
from pyrite.ranking.collections.run_dialects import QREL_NAMES
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.similar import similar_path

NAMES: Mapping[str, Sequence[str]] = {
    "topic": QREL_NAMES["query"],
    "document": QREL_NAMES["document"],
    "grade": (*QREL_NAMES["grade"], "choice"),
    "assessor": ("assessor", "annotator", "username", "user", "completed_by"),
    "time": ("time", "updated_at", "created_at"),
    "note": ("note", "comment", "comments"),
    "rationale": ("rationale",),
}
"""What a judgement consists of, and its names in tables and in the objects of JSON, the preferred ones first."""
GRADED = ("choices", "rating", "number")
"""The values of Label Studio's controls that may be a grade."""
CANNOT = frozenset({"", "can't judge", "can’t judge"})
"""Grades of documents that the assessor could not judge."""
UNGRADED = "annotations without a grade, which are not imported"
TREC = ("", ".txt", ".qrels", ".qrel", ".trec")
"""Endings of names of TREC's judgements, which have no assessors."""


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


def read_made(path: str | Path, words: Mapping[str, int], faults: Faults | None = None) -> list[Made]:
    """Read the judgements in a file, in its order: a table with a header, Label Studio's tasks or doccano's lines.

    Args:
        path: a file in one of the formats of `pyrite.ranking.collections.row_files.KINDS`.
        words: the grades of this pool by their names in lower case.
        faults: receives broken rows, and counts annotations without a grade. None raises.

    Raises:
        BadInput: with the place, for a judgement without topic, document or assessor, or with a grade that the pool
            lacks.
    """
    path, faults = Path(path), faults or Faults()
    refuse(not path.exists(), "no such file", path, similar_path(path))
    refuse(
        Path(plain_name(path)).suffix in TREC, "is no table of judgements with assessors by its name (.csv, .tsv, "
        ".json, .jsonl, .parquet)", path, "give TREC's judgements to `pyrite judge` by qrels=, when it starts"
    )  # fmt: skip
    made = []
    for number, row in read_rows(path, faults, names=[*itertools.chain.from_iterable(NAMES.values())]):
        where = f"{path}:{number}"
        judged = _annotations(row, where) if "annotations" in row else [_flat(row, path, where)]
        graded = [fields for fields in judged if "grade" in fields]
        faults.note(UNGRADED, len(judged) - len(graded))
        made += [_made(fields, words, where) for fields in graded]
    refuse(not made, "no judgements in it", path)
    return made


def _annotations(task: Mapping[str, Any], where: str) -> list[dict[str, str]]:
    """Return the judgements of a task of Label Studio."""
    annotations = task["annotations"]
    well_formed = isinstance(annotations, list) and all(isinstance(each, Mapping) for each in annotations)
    refuse(not well_formed, "`annotations` is no list of objects", where, "export tasks from Label Studio as JSON")
    return [_annotation(task, each, where) for each in annotations]


def _annotation(task: Mapping[str, Any], annotation: Mapping[str, Any], where: str) -> dict[str, str]:
    """Return an annotation of Label Studio: a choice or rating, and what was written and marked next to it."""
    values, by = [*_values(annotation)], annotation.get("completed_by")
    written = _joined([value.get("text") for _, value in values if "labels" not in value])
    marked = _joined([value.get("text") for _, value in values if "labels" in value])
    person = {"assessor": _person(by)} if by else {}
    grade = {} if annotation.get("was_cancelled") else _graded(values, where)
    texts = {"note": written, "rationale": marked}
    return _named(_inner(task, "data")) | _named(annotation) | texts | person | grade


def _values(annotation: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the value of each control of an annotation, after its name."""
    for result in annotation.get("result") or ():
        if isinstance(result, Mapping) and isinstance(value := result.get("value"), Mapping):
            yield str(result.get("from_name", "")).lower(), value


def _graded(values: Sequence[tuple[str, Mapping[str, Any]]], where: str) -> dict[str, str]:
    """Return the grade of an annotation, if it has one: the value of the only control for whole documents that may be
    one, or of several, of the one with the name of a grade."""
    of_documents = [(name, value) for name, value in values if "start" not in value]
    controls = {name: value[kind] for name, value in of_documents for kind in GRADED if kind in value}
    control = next(iter(controls)) if len(controls) == 1 else first(NAMES["grade"], controls)
    what = f"an annotation has {len(controls)} controls that may be the grade ({', '.join(controls)})"
    refuse(controls and control is None, what, where, "call one of them `grade` (its `from_name`)")
    return {} if control is None else {"grade": _single(controls[control], where)}


def _flat(row: Mapping[str, Any], path: Path, where: str) -> dict[str, str]:
    """Return the judgement of a row of a table, or of a line of doccano.

    doccano exports a file for each annotator, under their name, and an empty list for what was not annotated.
    """
    fields = {**_inner(row, "meta"), **_inner(row, "metadata"), **row}
    lowered = {str(key).lower(): value for key, value in fields.items()}
    name = first((*NAMES["grade"], "labels"), lowered)
    refuse(name is None, "a judgement without grade", where, f"name it by one of {', '.join(NAMES['grade'])}")
    value = lowered[str(name)]
    stem = {"assessor": path.stem.partition(".")[0]} if isinstance(value, list) else {}
    grade = {} if value == [] else {"grade": _single(value, where)}
    return stem | {key: text for key, text in _named(fields).items() if key != "grade"} | grade


def _single(value: Any, where: str) -> str:
    """Return a grade as text; of a list its only item."""
    inner = value.get("choices", value) if isinstance(value, Mapping) else value
    items = inner if isinstance(inner, list) else [inner]
    what = "its label marks passages, and is no grade"
    refuse(any(isinstance(item, list | Mapping) for item in items), what, where, "export classes of whole documents")
    refuse(len(items) > 1, f"a judgement with {len(items)} grades ({', '.join(map(str, items))})", where, "keep one")
    return _plain(_joined(items))


def _made(fields: Mapping[str, str], words: Mapping[str, int], where: str) -> Made:
    missing = [name for name in ("topic", "document", "assessor") if not fields.get(name)]
    known = ", ".join(NAMES[missing[0]]) if missing else ""
    refuse(missing[:1], "a judgement without {}", where, f"name it by one of {known}")
    word = fields["grade"].strip().lower()
    grade = words.get(word, words.get(word.removesuffix(".0")))
    what = f"grade {word!r} is none of this pool's ({', '.join(words)})"
    is_number = word.removeprefix("-").replace(".", "", 1).isdigit()
    remedy = "correct it in the file, or leave the row out" if is_number else "give labels= with these words"
    refuse(grade is None and word not in CANNOT, what, where, remedy)
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


def _inner(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return an object within a row; an empty one if it has none."""
    value = row.get(name)
    return value if isinstance(value, Mapping) else {}


def _named(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields of a row by the keys of `NAMES`; of several names the first counts."""
    lowered = {str(key).lower(): value for key, value in row.items()}
    chosen = ((field, first(names, lowered)) for field, names in NAMES.items())
    return {field: _plain(_joined([lowered[name]])) for field, name in chosen if name is not None}


def _person(by: Any) -> str:
    """Return the name of an annotator: an e-mail address if there is one, else a number."""
    return _joined([by.get("email") or by.get("id")]) if isinstance(by, Mapping) else str(by)


def _joined(values: Sequence[Any]) -> str:
    """Return values, and those in lists, as one text."""
    return "; ".join(_texts(values))


def _texts(values: Sequence[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, list):
            yield from _texts(value)
        elif value not in (None, ""):
            yield str(value.get("text", "")) if isinstance(value, Mapping) else str(value)


def _plain(text: str) -> str:
    """Return a text without the apostrophe by which `pyrite judge` keeps it from being a formula."""
    return text[1:] if re.match(f"'{FORMULA}", text) else text
