"""Takes a row apart: its query, its documents, and which of them are relevant, negative or only scored."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from pyrite.ranking.collections.faults import RowFault
from pyrite.ranking.collections.names import first
from pyrite.ranking.collections.pair_dialects import (
    BESIDE,
    LABEL,
    LIKE_LABELS,
    LIKE_NEGATIVES,
    LISTED,
    NEGATIVES,
    OTHERS,
    POSITIVE,
    PROMPT,
    QUERY,
    ROLES,
    SCORES,
    SEPARATE,
    TITLED,
    TITLES,
    grades_of_classes,
    listed_column,
    without_columns,
)
from pyrite.ranking.collections.row_values import Document, documents, identifier, numbers, query_text, titled

LOOK_LIKE: Mapping[str, Callable[[str], object]] = {
    "query": lambda name: name.lower() in QUERY,
    "positive": lambda name: name.lower() in (*POSITIVE, *TITLES),
    "label": LIKE_LABELS.search,
    "negatives": LIKE_NEGATIVES.search,
}
"""How the names of columns look that an option may choose."""


class Parts(NamedTuple):
    """The parts of a row, whether a label specifies which documents are relevant, its number of empty negatives, and
    the text before its query."""

    query: str
    query_id: str | None
    documents: list[Document]
    labelled: bool
    empty: int
    prompt: str | None = None


@dataclass(frozen=True)
class _Columns:
    listed: str | None
    query: str
    positive: str
    title: str | None
    negatives: tuple[str, ...]
    scores: tuple[str, ...]
    label: str | None
    prompt: str | None


@dataclass
class RowForm:
    """The meaning of a row's columns: the options of `pyrite.ranking.collections.pairs.Pairs`.

    Attributes:
        classes: the names of the classes of columns of labels, in the file that is read.
    """

    query: str | None
    positive: str | None
    negatives: str | Sequence[str] | None
    scores: str | Sequence[str] | None
    label: str | None
    relevant_from: float | None
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    _known: dict[tuple[str, ...], _Columns] = field(default_factory=dict, repr=False)

    def used(self) -> list[str]:
        """Return the columns that were used so far, in the order query, positive, negatives, scores, label."""
        each = (
            (it.query, it.title, it.positive, *it.negatives, *it.scores, it.label, it.prompt)
            for it in self._known.values()
        )  # fmt: skip
        return [name for name in dict.fromkeys(itertools.chain(*each)) if name not in (None, BESIDE)]

    def unread(self) -> dict[str, list[str]]:
        """Return the columns that have a usual name and were not taken, by the option that chooses them."""
        plain = [names for names, columns in self._known.items() if columns.listed is None]
        left = [name for name in dict.fromkeys(itertools.chain(*plain)) if name not in {*self.used(), *SEPARATE}]
        found = {
            option: list(filter(looks_like, left))
            for option, looks_like in LOOK_LIKE.items() if getattr(self, option) is None
        }  # fmt: skip
        return {option: names for option, names in found.items() if names}

    def names(self) -> tuple[str, ...]:
        """Return the names by which a header is recognised, in lower case."""
        given = tuple(name.lower() for name in (self.query, self.positive) if name)
        return given + QUERY + POSITIVE + LABEL + OTHERS

    def parts(self, row: Mapping[str, Any]) -> Parts:
        """Take a row apart; raise a `RowFault` if something is missing, or does not fit."""
        key = tuple(row)
        if key not in self._known:
            self._known[key] = self._columns(key)
        row, columns = _plain(row, self._known[key])
        query = query_text(row.get(columns.query))
        if not query.strip():
            raise RowFault("the query is empty", kind="empty text")
        positives = documents(row.get(columns.positive), f"column {columns.positive}")
        if not positives:
            raise RowFault(f"the document (column {columns.positive}) is empty", kind="empty text")
        if columns.title is not None:
            positives = [_titled(row[columns.title], document) for document in positives]
        negatives = [one for name in columns.negatives for one in documents(row.get(name), f"column {name}")]
        if not all(document.text.strip() for document in positives):
            raise RowFault("a document is empty", kind="empty text")
        graded = _named(self._graded(positives, negatives, row, columns), row)
        kept = [document for document in graded if document.text.strip()]
        query_id = identifier(row.get("query_id", row.get("qid")))
        prompt = row.get(columns.prompt) if columns.prompt else None
        words = prompt if isinstance(prompt, str) else None
        return Parts(query, query_id, kept, columns.label is not None, len(graded) - len(kept), words)

    def check(self, names: Sequence[str]) -> None:
        """Raise a `RowFault` if the columns of a table, or all names in its rows, lack one that is needed."""
        columns = self._columns(tuple(names))
        options = {"negatives": columns.negatives, "scores": columns.scores, "label": filter(None, [columns.label])}
        wanted = ((name, option) for option, several in options.items() for name in several)
        for name, option in {name: option for name, option in wanted if name not in names}.items():
            remedy = f"it has {', '.join(names)}; see collection.{option}"
            raise RowFault(f"has no column {name!r}", remedy, always=True)

    def _columns(self, names: tuple[str, ...]) -> _Columns:
        """Return the columns of a row by their names, the given ones or the usual ones."""
        written = {name.lower(): name for name in reversed(names)}  # Query and QUERY are the usual query
        given = {"query": self.query, "positive": self.positive}
        listed = None if any(given.values()) else listed_column(written)
        if listed is not None:
            names, written = (*names, "query", "positive"), written | {"query": "query", "positive": "positive"}
        usual = {"query": QUERY, "positive": POSITIVE}
        named = {kind: given[kind] or written.get(first(usual[kind], written) or "") for kind in usual}
        absent = [kind for kind, name in named.items() if name not in names]
        if absent:
            raise without_columns(names, named, given=given[absent[0]] is not None)
        query, positive = str(named["query"]), str(named["positive"])
        usual_ones = [name for name in names if NEGATIVES.match(name) and name != positive]
        negatives = usual_ones if self.negatives is None else _listed(self.negatives)
        title = written.get(first(TITLES, written) or "") if positive.lower() in TITLED else None
        label = self.label or written.get(first(LABEL, written) or "")
        prompt = written.get(first(PROMPT, written) or "")
        return _Columns(
            written.get(listed or ""), query, positive, None if title == query else title, tuple(negatives),
            self._score_columns(names, written), label, prompt if prompt != query else None,
        )  # fmt: skip

    def _score_columns(self, names: Sequence[str], written: Mapping[str, str]) -> tuple[str, ...]:
        """Return the columns of scores; none if there is none."""
        role = self.scores if isinstance(self.scores, str) and self.scores in ROLES else None
        usual = ((role,), *SCORES) if role else SCORES
        found = next((several for several in usual if set(several) <= written.keys()), ())
        if role and not found:
            raise RowFault("has no column of scores", f"it has {', '.join(names)}; call it score or scores")
        given = found if self.scores is None or role else _listed(self.scores)
        chosen = given or (BESIDE,) * (BESIDE in names)
        return tuple(name if name in names else written.get(name, name) for name in chosen)

    def _graded(
        self, positives: list[Document], negatives: list[Document], row: Mapping[str, Any], columns: _Columns
    ) -> list[Document]:
        """Return the documents with their grades and scores."""
        every = [*positives, *negatives]
        scores = self._scores(len(positives), len(negatives), row, columns)
        if columns.label:
            grades = self._labels(row, columns, len(positives), len(every))
        else:
            grades = [1] * len(positives) + [None] * len(negatives)
        are_labels = scores and not (columns.label or negatives or columns.scores in ((BESIDE,), SEPARATE))
        if are_labels and self.relevant_from is not None:
            below = self.relevant_from
            grades = [None if None in scores else int(score >= below) for score in scores]  # type: ignore[operator]
        elif are_labels and self.scores != "teacher" and not columns.negatives:
            remedy = "a score is no label: give a relevant document's lowest one (collection.relevant_from=0.8), "
            remedy += "or say that all documents are relevant (collection.scores=teacher)"
            raise RowFault(f"has scores ({', '.join(columns.scores)}) and no labels", remedy, always=True)
        of_row = zip(every, grades, scores or [None] * len(every), strict=True)
        return [
            document._replace(grade=grade, score=document.score if score is None else score)
            for document, grade, score in of_row
        ]

    def _labels(self, row: Mapping[str, Any], columns: _Columns, ahead: int, count: int) -> list[int | None]:
        """Return the grade of each document by its label; None for negatives without one."""
        labels = numbers(row.get(str(columns.label)), "label")
        if not labels:
            raise RowFault(f"no label (column {columns.label})")
        if len(labels) not in (ahead, count):
            raise RowFault("not as many labels as documents")
        names = self.classes.get(str(columns.label))
        if names is not None and self.relevant_from is None:
            labels = [_of_class(label, names, str(columns.label)) for label in labels]
        return [*map(self._grade, labels), *[None] * (count - len(labels))]

    def _grade(self, label: float | None) -> int:
        if label is None:
            raise RowFault("no label")
        if self.relevant_from is not None:
            return int(label >= self.relevant_from)
        if not label.is_integer() or abs(label) >= 2**31:
            remedy = "name it by collection.scores, or give a relevant document's lowest one: collection.relevant_from"
            raise RowFault(f"a label is no whole number ({label:g}): is it a score?", remedy)
        return int(label)

    def _scores(self, ahead: int, behind: int, row: Mapping[str, Any], columns: _Columns) -> list[float | None]:
        """Return a score per document, None if it has none; an empty list if none has."""
        given = [numbers(row.get(name), "score") for name in columns.scores]
        if not any(given):
            return []
        if columns.scores == SEPARATE:
            return [*_as_many(given[0], ahead, "pos_scores"), *_as_many(given[1], behind, "neg_scores")]
        scores = [score for several in given for score in several]
        if self.scores == "margin":
            margins = [None if margin is None else -margin for margin in scores]
            return [*[0.0] * ahead, *_as_many(margins, behind, "margins", "negatives")]
        of_pair = ahead == behind == len(columns.scores) == len(scores) == 1
        if of_pair and self.scores is None and not isinstance(row.get(columns.scores[0]), list):
            what = f"has one score ({columns.scores[0]}) for a document and a negative"
            remedy = "if it is the margin between them, set collection.scores=margin; if it is the negative's, "
            raise RowFault(what, f"{remedy}collection.scores={columns.scores[0]}", always=True)
        if len(scores) not in (ahead + behind, behind):
            raise RowFault(f"not as many scores as documents ({len(scores)} for {ahead + behind})")
        return [None] * (ahead + behind - len(scores)) + scores


def _plain(row: Mapping[str, Any], columns: _Columns) -> tuple[Mapping[str, Any], _Columns]:
    """Return a row with one column for each part, and its columns: lists and MS MARCO's passages taken apart."""
    if columns.listed is not None:
        row = {**row, **_unlisted(row[columns.listed], columns.listed)}
        return row, replace(columns, negatives=tuple(filter(NEGATIVES.match, row)))
    passages = row.get(columns.positive)
    chosen = passages.get("is_selected") if isinstance(passages, Mapping) else None
    if columns.label is None and isinstance(chosen, list):
        return {**row, "is_selected": chosen}, replace(columns, label="is_selected")
    return row, columns


def _unlisted(value: Any, name: str) -> dict[str, Any]:
    """Return the columns of texts that are in one list: a query, a positive and negatives."""
    if not isinstance(value, list) or len(value) < 2:
        raise RowFault(f"column {name} is no list of a query and a positive")
    return LISTED[name.lower()](value)


def _titled(title: Any, document: Document) -> Document:
    """Return a document with the title of its row."""
    words = [part.text for part in documents(title, "the title")]
    return document._replace(text=titled(" ".join(words), document.text))


def _listed(option: str | Sequence[str]) -> tuple[str, ...]:
    return (option,) if isinstance(option, str) else tuple(option)


def _as_many(
    numbers: list[float | None], count: int, what: str, of: str = "documents"
) -> list[float | None]:  # fmt: skip
    """Return a number per document: those that are given, or None for all."""
    if numbers and len(numbers) != count:
        raise RowFault(f"{len(numbers)} {what} for {count} {of}")
    return numbers or [None] * count


def _of_class(label: float | None, names: Sequence[str], column: str) -> float | None:
    """Return the grade of a class that a file names."""
    grades = grades_of_classes(names)
    if grades is None:
        classes = ", ".join(f"{number} is {name}" for number, name in enumerate(names))
        remedy = "if higher is more relevant, set collection.relevant_from=1, or name another column (collection.label)"
        raise RowFault(
            f"column {column} has classes of which it is not known which are relevant ({classes})", remedy, always=True
        )
    if label is None or not 0 <= label < len(names):
        raise RowFault(f"no label (column {column})")
    return float(grades[int(label)])


def _named(found: list[Document], row: Mapping[str, Any]) -> list[Document]:
    """Return the documents with the ids that the row lists."""
    ids = row.get("document_ids")
    if ids is None:
        return found
    ids = [ids] if isinstance(ids, str) else ids
    if len(ids) != len(found):
        raise RowFault(f"not as many ids as documents ({len(ids)} for {len(found)})")
    return [document._replace(id=identifier(name)) for document, name in zip(found, ids, strict=True)]
