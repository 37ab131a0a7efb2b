"""Takes a row apart: its query, its documents, and which of them are relevant, negative or only scored."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from pyrite.ranking.collections.faults import SKIP, RowFault
from pyrite.ranking.collections.json_rows import Point, unnamed

QUERY = (
    "query", "anchor", "question", "sentence1", "messages", "question1", "sentence_0", "query_text", "prompt",
)  # fmt: skip
POSITIVE = (
    "positive", "pos", "positives", "positive_passages", "positive_ctxs", "positive_messages", "answer", "document",
    "documents", "docs", "passage", "passages", "response", "sentence2", "context", "question2", "sentence_1",
    "passage_text", "completion", "text",
)  # fmt: skip
LABEL = ("label", "labels", "relevance", "relevant", "is_relevant", "rel", "grade", "is_duplicate")
NEGATIVES = re.compile(r"^(hard_)?(negative|negatives|neg)(_passages|_ctxs|_messages)?(_?\d+)?$", re.I)
SCORES = (
    ("scores",), ("score",), ("pos_scores", "neg_scores"),
    *((name,) for name in ("similarity", "similarity_score", "relevance_score", "ce_score", "teacher_score", "rating")),
)  # fmt: skip
"""Names of the columns in other tools, in the order in which they are preferred."""
BESIDE = "scores beside"
"""The column of the scores in the tables `ids` that `pyrite mine` writes."""
TEXT = ("text", "contents", "content", "passage", "document", "body", "context")
IDS = ("docid", "doc_id", "docno", "passage_id", "psg_id", "pid", "_id", "id")
NAME_BESIDE = "name it beside the texts: collection=msmarco (or beir) collection.path=… collection.given=FILE"
"""What to do with a file of ids."""
PAIRED_IDS = re.compile(r"^(pos|positive|neg|negative)s?(_document)?_p?ids$")
"""Columns of ids in place of texts, as Tevatron and the hard negatives of MS MARCO have them."""
LISTED = ("texts", "pair", "triplet", "set")
"""Columns of a query, a positive and negatives in one list; of a `set`, all after the first are positive."""
OTHERS = (
    "text", "query_text", "passage_text", "qid", "query_id", "pid", "docid", "doc_id", "document_ids", "id", "split",
)  # fmt: skip
"""Further names by which a header is recognised."""
ROLES = ("teacher", "margin")
"""Values of `scores` that say what scores are, instead of naming their column."""


class Document(NamedTuple):
    """A document of a row. The grade of a negative is None."""

    text: str
    id: str | None = None
    grade: int | None = None
    score: float | None = None


class Parts(NamedTuple):
    """The parts of a row, and whether a label says which documents are relevant."""

    query: str
    query_id: str | None
    documents: list[Document]
    labelled: bool


@dataclass(frozen=True)
class _Columns:
    listed: str | None
    query: str
    positive: str
    negatives: tuple[str, ...]
    scores: tuple[str, ...]
    label: str | None


@dataclass
class RowForm:
    """The meaning of a row's columns: the options of `pyrite.ranking.collections.pairs.Pairs`."""

    query: str | None
    positive: str | None
    negatives: str | Sequence[str] | None
    scores: str | Sequence[str] | None
    label: str | None
    relevant_from: float | None
    _known: dict[tuple[str, ...], _Columns] = field(default_factory=dict, repr=False)

    def used(self) -> list[str]:
        """Return the columns that were used so far, in the order query, positive, negatives, scores, label."""
        each = ((it.query, it.positive, *it.negatives, *it.scores, it.label or "") for it in self._known.values())
        return list(dict.fromkeys(name for names in each for name in names if name and name != BESIDE))

    def unread(self) -> dict[str, list[str]]:
        """Return the columns that have a usual name and were not taken, by the option that chooses them."""
        options = (("query", self.query, QUERY), ("positive", self.positive, POSITIVE), ("label", self.label, LABEL))
        used, found = set(self.used()), dict[str, list[str]]()
        for names, columns in self._known.items():
            for option, given, usual in options:
                others = [name for name in names if name.lower() in usual and name not in used]
                if given is None and columns.listed is None and others:
                    found[option] = list(dict.fromkeys([*found.get(option, []), *others]))
        return found

    def names(self) -> tuple[str, ...]:
        """Return the names by which a header is recognised, in lower case."""
        given = tuple(name.lower() for name in (self.query, self.positive) if name)
        return given + QUERY + POSITIVE + LABEL + OTHERS

    def parts(self, row: Mapping[str, Any]) -> Parts:
        """Take a row apart; raise a `RowFault` if something is missing, or does not fit."""
        key = tuple(row)
        if key not in self._known:
            self._known[key] = self._columns(key)
        columns = self._known[key]
        passages = row.get(columns.positive)
        if columns.label is None and isinstance(passages, Mapping) and isinstance(passages.get("is_selected"), list):
            row, columns = {**row, "is_selected": passages["is_selected"]}, replace(columns, label="is_selected")
        if columns.listed is not None:
            row = _unlisted(row, columns.listed)
        query = _joined_text(row.get(columns.query))
        if not query.strip():
            raise RowFault("the query is empty", kind="empty text")
        positives = list(_documents(row.get(columns.positive), f"column {columns.positive}"))
        if not positives:
            raise RowFault(f"the document (column {columns.positive}) is empty", kind="empty text")
        names = columns.negatives if columns.listed is None else [name for name in row if NEGATIVES.match(name)]
        negatives = [document for name in names for document in _documents(row.get(name), f"column {name}")]
        if any(not document.text.strip() for document in (*positives, *negatives)):
            raise RowFault("a document is empty", kind="empty text")
        documents = self._graded(positives, negatives, row, columns)
        return Parts(query, _id(row.get("query_id", row.get("qid"))), _named(documents, row), columns.label is not None)

    def _columns(self, names: tuple[str, ...]) -> _Columns:
        """Return the columns of a row by their names, the given ones or the usual ones."""
        there = f"it has {', '.join(names)}" if names else "it is empty"
        written = {name.lower(): name for name in reversed(names)}  # Query and QUERY are the usual query
        listed = next((written[name] for name in LISTED if name in written), None)
        if self.query is None and self.positive is None and listed and not written.keys() & {*QUERY, *POSITIVE}:
            names, written = (*names, "query", "positive"), written | {"query": "query", "positive": "positive"}
        else:
            listed = None

        usual_names = {"query": (self.query, QUERY), "positive": (self.positive, POSITIVE)}
        named = {
            kind: given if given is not None else next((written[name] for name in usual if name in written), None)
            for kind, (given, usual) in usual_names.items()
        }
        if absent := [kind for kind, name in named.items() if name not in names]:
            raise _without_columns(names, named, absent, given=usual_names[absent[0]][0] is not None)
        query, positive = str(named["query"]), str(named["positive"])
        if self.negatives is None:
            negatives = tuple(name for name in names if NEGATIVES.match(name) and name != positive)
        else:
            negatives = _listed(self.negatives)
        scores: Sequence[str] = ()
        if isinstance(self.scores, str) and self.scores in ROLES:
            usual = ((self.scores,), *SCORES)
            scores = next((names_of for names_of in usual if set(names_of) <= written.keys()), ())
            if not scores:
                raise RowFault("has no column of scores", f"{there}; call it score or scores")
        elif self.scores is not None:
            scores = _listed(self.scores)
        else:
            scores = next((usual for usual in SCORES if set(usual) <= written.keys()), ())
        if not scores and BESIDE in names:
            scores = (BESIDE,)
        scores = [written.get(name, name) if name not in names else name for name in scores]
        label = self.label if self.label is not None else next((written[n] for n in LABEL if n in written), None)
        return _Columns(listed, query, positive, negatives, tuple(scores), label)

    def check(self, names: Sequence[str]) -> None:
        """Raise a `RowFault` if the columns of a table, or all names in its rows, lack one that is needed."""
        columns = self._columns(tuple(names))
        wanted = [("negatives", name) for name in columns.negatives] + [("scores", name) for name in columns.scores]
        for option, name in [*wanted, ("label", columns.label)]:
            if name is not None and name not in names:
                remedy = f"it has {', '.join(names)}; see collection.{option}"
                raise RowFault(f"has no column {name!r}", remedy, always=True)

    def _graded(
        self, positives: list[Document], negatives: list[Document], row: Mapping[str, Any], columns: _Columns
    ) -> list[Document]:
        """Return the documents with their grades and scores."""
        labels = _numbers(row.get(columns.label), "label") if columns.label else []
        scores = self._scores(positives, negatives, row, columns)
        grades: list[int | None] = [1] * len(positives) + [None] * len(negatives)
        if labels:
            if len(labels) not in (len(positives), len(grades)):
                raise RowFault("not as many labels as documents")
            grades[: len(labels)] = [self._grade(label) for label in labels]
        elif columns.label:
            raise RowFault(f"no label (column {columns.label})")
        elif scores and not negatives and columns.scores != (BESIDE,) and "pos_scores" not in columns.scores:
            if self.relevant_from is not None:
                missing = any(score is None for score in scores)
                grades = [None if missing else int(score >= self.relevant_from) for score in scores]  # type: ignore[operator]
            elif self.scores != "teacher" and not columns.negatives:
                remedy = "a score is no label: give a relevant document's lowest one (collection.relevant_from=0.8), "
                remedy += "or say that all documents are relevant (collection.scores=teacher)"
                what = f"has scores ({', '.join(columns.scores)}) and no labels"
                raise RowFault(what, remedy, always=True)
        every = zip((*positives, *negatives), grades, scores or [None] * len(grades), strict=True)
        return [
            document._replace(grade=grade, score=score if score is not None else document.score)
            for document, grade, score in every
        ]

    def _grade(self, label: float | None) -> int:
        if label is None:
            raise RowFault("no label")
        if self.relevant_from is not None:
            return int(label >= self.relevant_from)
        if not label.is_integer() or abs(label) >= 2**31:
            remedy = "name it by collection.scores, or give a relevant document's lowest one: collection.relevant_from"
            raise RowFault(f"a label is no whole number ({label:g}): is it a score?", remedy)
        return int(label)

    def _scores(
        self, positives: list[Document], negatives: list[Document], row: Mapping[str, Any], columns: _Columns
    ) -> list[float | None]:
        """Return a score per document, None if it has none; an empty list if none has."""
        ahead, behind = len(positives), len(negatives)
        given = [_numbers(row.get(name), "score") for name in columns.scores]
        if not any(given):
            return []
        if columns.scores == ("pos_scores", "neg_scores"):
            for what, numbers, count in (("pos_scores", given[0], ahead), ("neg_scores", given[1], behind)):
                if numbers and len(numbers) != count:
                    raise RowFault(f"{len(numbers)} {what} for {count} documents")
            return [*(given[0] or [None] * ahead), *(given[1] or [None] * behind)]
        scores = [score for numbers in given for score in numbers]
        single = len(columns.scores) == 1 and not isinstance(row.get(columns.scores[0]), list)
        if self.scores == "margin":
            if len(scores) != behind:
                raise RowFault(f"{len(scores)} margins for {behind} negatives")
            return [0.0] * ahead + [None if margin is None else -margin for margin in scores]
        if single and ahead == behind == 1 and self.scores is None:
            what = f"has one score ({columns.scores[0]}) for a document and a negative"
            remedy = "if it is the margin between them, set collection.scores=margin; if it is the negative's, "
            raise RowFault(what, f"{remedy}collection.scores={columns.scores[0]}", always=True)
        if len(scores) == ahead + behind:
            return scores
        if len(scores) == behind and behind:
            return [None] * ahead + scores
        raise RowFault(f"not as many scores as documents ({len(scores)} for {ahead + behind})")


def _listed(option: str | Sequence[str]) -> tuple[str, ...]:
    return (option,) if isinstance(option, str) else tuple(option)


def _without_columns(
    names: Sequence[str], named: Mapping[str, str | None], absent: Sequence[str], given: bool
) -> RowFault:
    """Return the fault of a row without the column of its query or its positive; `given` if an option names it."""
    ids = [name for name in names if PAIRED_IDS.match(name)] or (["qid", "pos", "neg"] if absent[0] == "query" else [])
    if not given and ids and set(ids) <= set(names):
        what = f"holds ids, not texts ({', '.join(ids)})"
        return RowFault(what, NAME_BESIDE, always=True)
    if {"data", "annotations"} <= set(names):
        what = "is an export of Label Studio, which has the texts within `data`"
        return RowFault(what, "export it as JSON-MIN or CSV", always=True)
    if {"_id", "text"} <= set(names) and not set(names) - {"_id", "text", "title", "metadata"}:
        remedy = "if it is in a BEIR folder, set collection=beir collection.path=FOLDER"
        return RowFault("holds texts by their ids, not pairs", remedy, always=True)
    name = named[absent[0]]
    what = f"has no column {name!r}" if name else f"has no column of the {' or the '.join(absent)} by a usual name"
    there = f"it has {', '.join(names)}" if names else "it is empty"
    remedy = f"{there}; name it by {' '.join(f'collection.{kind}=COLUMN' for kind in absent)}"
    return RowFault(what, remedy, always=not given)


def _joined_text(value: Any) -> str:
    """Return the text of a query: a text, a number, or messages of a chat."""
    documents = list(_documents(value, "the query"))
    if len(documents) > 1:
        if all(document.text.isdecimal() for document in documents):
            what = f"the query is a list of {len(documents)} numbers, as a tokenizer makes them, and no text"
            raise RowFault(what, "bring the texts", always=True)
        remedy = "write one text per query, or set strict=false to skip and count such rows"
        raise RowFault(f"the query is a list of {len(documents)} texts", remedy)
    return documents[0].text if documents else ""


def _documents(value: Any, what: str) -> Iterator[Document]:
    """Yield the documents of a value: a text, a passage (an object), messages of a chat, or a list of these."""
    if value is None:
        return
    if isinstance(value, str) and value.startswith("["):
        value = _unpacked(value, str, what)
    if isinstance(value, str | int | float):
        if isinstance(value, Point) and value.lower() == "nan":  # pandas writes a missing text like this
            return
        text = _text(value)
        if text.strip() or isinstance(value, Point):
            yield Document(text)
        return
    if isinstance(value, Mapping):
        if "passage_text" in value and isinstance(value["passage_text"], list):  # as MS MARCO at the hub
            yield from _documents(value["passage_text"], what)
            return
        if all(isinstance(item, list) for item in value.values()) and set(value) & set(TEXT):
            for items in zip(*value.values(), strict=True):  # a list of objects, as the library datasets turns it
                yield _passage(dict(zip(value, items, strict=True)), what)
            return
        if all(isinstance(item, list) for item in value.values()) and value:
            for item in value.values():  # negatives by the system that found them
                yield from _documents(item, what)
            return
        yield _passage(value, what)
        return
    if isinstance(value, list | tuple):
        if value and all(isinstance(item, Mapping) and "role" in item and "content" in item for item in value):
            yield Document(" ".join(filter(None, (_content(item["content"]) for item in value))))
            return
        for item in value:
            if isinstance(item, str) and not item.strip():
                yield Document("")
            yield from _documents(item, what)
        return
    raise RowFault(f"{what} is no text ({type(value).__name__})")


def _passage(value: Mapping[str, Any], what: str) -> Document:
    """Return the document of an object with a text, a title and an id, as Tevatron and DPR have it."""
    name = next((name for name in TEXT if isinstance(value.get(name), str)), None)
    if name is None:
        keys = ", ".join(map(str, value)) or "nothing"
        raise RowFault(f"{what} has an object without a text: it has {keys}")
    title, body = value.get("title") or "", str(value[name])
    if not isinstance(title, str):
        raise RowFault(f"{what} has a title that is no text")
    identifier = next((_id(value[key]) for key in IDS if value.get(key) is not None), None)
    scores = _numbers(value.get("score"), "score")
    return Document(f"{title} {body}" if title else body, identifier, None, scores[0] if scores else None)


def _content(value: Any) -> str:
    """Return the text of a chat message: a text, or parts of which some are text."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return " ".join(str(part["text"]) for part in value if isinstance(part, Mapping) and part.get("text"))
    return ""


def _text(value: str | int | float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _id(value: Any) -> str | None:
    """Return an id as it is written; numbers with a point are none."""
    if value is None or value == "":
        return None
    if isinstance(value, Point) or not isinstance(value, str | int):
        raise RowFault(f"the id {str(value)[:40]} is no text: write ids as texts")
    return _text(value)


def _named(documents: list[Document], row: Mapping[str, Any]) -> list[Document]:
    """Return the documents with the ids that the row lists."""
    ids = row.get("document_ids")
    if ids is None:
        return documents
    if isinstance(ids, str):
        ids = [ids]
    if len(ids) != len(documents):
        raise RowFault(f"not as many ids as documents ({len(ids)} for {len(documents)})")
    return [document._replace(id=_id(name)) for document, name in zip(documents, ids, strict=True)]


def _unlisted(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a row whose texts are in one list as a query, a positive and negatives."""
    texts = row[name] if isinstance(row[name], list) else []
    if len(texts) < 2:
        raise RowFault(f"column {name} is no list of a query and a positive")
    if name.lower() == "set":
        return {**row, "query": texts[0], "positive": list(texts[1:])}
    return {**row, **dict(zip(unnamed(len(texts)), texts, strict=True))}


def _unpacked(text: str, kind: type, what: str) -> Any:
    """Return the list that a text is, written by Python or as JSON, as pandas leaves it in a CSV; or the text itself.

    A list as NumPy prints it, which can't be taken apart, is refused.
    """
    if not text.endswith("]"):
        return text
    if re.match(r"""\[(['"]).*\1\s+(['"]).*\2\]$""", text, re.S) and kind is str and _python(text) is None:
        remedy = "write lists as JSON, or one column per document (negative_1, negative_2)"
        raise RowFault(f"{what} is a list as NumPy prints it, without commas", remedy)
    items = _python(text)
    return items if items is not None and all(isinstance(item, kind) for item in items) else text


def _python(text: str) -> list[Any] | None:
    """Return a list that is written as JSON, or as Python writes it; None if it is none, or empty."""
    try:
        items = json.loads(text)
    except (ValueError, RecursionError):
        try:
            items = ast.literal_eval(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return None
        if repr(items) != text:  # 'a' 'b' would be one text
            return None
    return items if isinstance(items, list) and items else None


def _numbers(value: Any, what: str) -> list[float | None]:
    """Return the numbers of a value or a list; None for a null in a list."""
    if isinstance(value, str) and value.startswith("["):
        value = _unpacked(value, object, what)
    if value is None or value == "":
        return []
    if isinstance(value, list | tuple):
        return [None if item is None else number(item, what) for item in value]
    return [number(value, what)]


def number(value: Any, what: str) -> float:
    """Return the number that a value is, or that a text writes, within the range of single precision."""
    try:
        read = float({"true": 1, "false": 0}.get(value.lower(), value) if isinstance(value, str) else value)
    except (TypeError, ValueError):
        remedy = "write 1 for relevant and 0 for not" if what == "label" else SKIP
        remedy = "write a point, not a comma" if re.fullmatch(r"[+-]?\d+,\d+", str(value)) else remedy
        raise RowFault(f"the {what} {str(value)[:40]!r} is not a number", remedy) from None
    if not abs(read) < 2**127:
        kind = "not a number" if math.isnan(read) else "out of range"
        raise RowFault(f"the {what} is {kind} ({read:g})")
    return read
