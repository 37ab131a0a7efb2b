"""Takes a row apart: its query, its documents, and which of them are relevant, negative or only scored."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from pyrite.ranking.collections.faults import RowFault, refuse_row
from pyrite.ranking.collections.names import first_value
from pyrite.ranking.collections.pair_dialects import (
    BESIDE,
    BESIDE_TEXTS,
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
from pyrite.ranking.collections.row_values import (
    Document,
    ListCell,
    documents,
    identifier,
    is_missing,
    numbers,
    query_text,
    titled,
    written_list,
)

LOOK_LIKE: Mapping[str, Callable[[str], object]] = {
    "query": lambda name: name.lower() in QUERY,
    "positive": lambda name: name.lower() in (*POSITIVE, *TITLES),
    "label": LIKE_LABELS.search,
    "negatives": LIKE_NEGATIVES.search,
}
"""How the names of columns look that an option may choose."""


class Parts(NamedTuple):
    """The parts of a row, whether a label specifies which documents are relevant, and its number of empty negatives.
    The text before its query and its split are as they are in the row."""

    query: str
    query_id: str | None
    documents: list[Document]
    labelled: bool
    empty: int
    prompt: Any = None
    split: Any = None


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
    split: str | None
    query_id: str | None
    document_ids: str | None

    def are_separate(self) -> bool:
        """Return whether the scores of positives are in one column, and those of negatives in another."""
        return tuple(map(str.lower, self.scores)) == SEPARATE

    def value(self, kind: str, row: Mapping[str, Any]) -> Any:
        """Return the value of a column in a row; None if there is no such column, or the value is missing."""
        # A column may have no name, as the index of pandas.
        name: str | None = getattr(self, kind)
        return None if name is None or is_missing(row[name]) else row[name]


@dataclass
class RowForm:
    """The meaning of a row's columns: the options of `pyrite.ranking.collections.pairs.Pairs`.

    Attributes:
        classes: the names of the classes of columns of labels, in the file that is read.
        lists: the number of texts that are written as lists, and the first of them, by how they were read.
    """

    query: str | None
    positive: str | None
    negatives: str | Sequence[str] | None
    scores: str | Sequence[str] | None
    label: str | None
    relevant_from: float | None
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    lists: dict[str, tuple[int, str]] = field(default_factory=dict)
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
        query = query_text(self._noted(row.get(columns.query)))
        refuse_row(not query.strip(), "the query is empty", kind="empty text")
        positives = self._positives(row, columns)
        negatives = [one for name in columns.negatives for one in self._documents(row, name)]
        refuse_row(not all(document.text.strip() for document in positives), "a document is empty", kind="empty text")
        graded = _named(self._graded(positives, negatives, row, columns), columns.value("document_ids", row))
        kept = [document for document in graded if document.text.strip()]
        return Parts(
            query, identifier(columns.value("query_id", row)), kept, columns.label is not None,
            len(graded) - len(kept), columns.value("prompt", row), columns.value("split", row),
        )  # fmt: skip

    def check(self, names: Sequence[str]) -> None:
        """Raise a `RowFault` if the columns of a table, or all names in its rows, lack one that is needed."""
        columns = self._columns(tuple(names))
        options = {"negatives": columns.negatives, "scores": columns.scores, "label": (columns.label,)}
        wanted = {name: option for option, several in options.items() for name in several}
        lacking = [name for name in wanted if name not in (*names, None)]
        for name in lacking[:1]:
            remedy = f"it has {', '.join(names)}; see collection.{wanted[name]}"
            raise RowFault(f"has no column {name!r}", remedy, always=True)

    def _columns(self, names: tuple[str, ...]) -> _Columns:
        """Return the columns of a row by their names, the given ones or the usual ones."""
        # Query and QUERY are the usual query.
        written = {name.lower(): name for name in reversed(names)} | dict(zip(names, names, strict=True))
        listed = None if self.query or self.positive else listed_column(written)
        if listed is not None:
            return replace(self._columns((*names, "query", "positive")), listed=written[listed])
        query, positive = self._pair(names, written)
        usual = {"title": TITLED.get(positive.lower(), ()), "label": LABEL, "prompt": PROMPT}
        others = {kind: name for kind, several in usual.items() if (name := first_value(several, written)) != query}
        negatives = [name for name in names if NEGATIVES.match(name) and name != positive]
        scores = self._score_columns(names, written)
        label = others.get("label")
        return _Columns(
            None, query, positive, others.get("title"), _chosen(self.negatives, negatives), scores,
            self.label or (None if label in scores else label), others.get("prompt"),
            *(first_value(several, written) for several in BESIDE_TEXTS),
        )  # fmt: skip

    def _pair(self, names: Sequence[str], written: Mapping[str, str]) -> tuple[str, str]:
        """Return the columns of the query and of the positive; raise a `RowFault` if one of them is not there."""
        query, positive = self.query or first_value(QUERY, written), self.positive or first_value(POSITIVE, written)
        if not {query, positive} <= set(names):
            raise without_columns(names, {"query": query, "positive": positive})
        return query, positive

    def _score_columns(self, names: Sequence[str], written: Mapping[str, str]) -> tuple[str, ...]:
        """Return the columns of scores; none if there is none."""
        role = [(self.scores,)] if self.scores in ROLES else []
        margins = [(name,) for name in LABEL if self.scores == "margin" and self.label is None]
        found = next((several for several in (*role, *SCORES, *margins) if set(several) <= written.keys()), ())
        what = "has no column of scores"
        refuse_row(role and not found, what, f"it has {', '.join(names)}; call it score or scores")
        chosen = found if role else _chosen(self.scores, found)
        return tuple(written.get(name, name) for name in chosen)

    def _positives(self, row: Mapping[str, Any], columns: _Columns) -> list[Document]:
        """Return the documents of the column of positives, each with the title of the row."""
        positives = self._documents(row, columns.positive)
        if not positives:
            raise RowFault(f"the document (column {columns.positive}) is empty", kind="empty text")
        if columns.title is not None:
            title = " ".join(part.text for part in documents(row[columns.title], "the title"))
            positives = [document._replace(text=titled(title, document.text)) for document in positives]
        return positives

    def _documents(self, row: Mapping[str, Any], name: str) -> list[Document]:
        """Return the documents of a column."""
        return documents(self._noted(row.get(name)), f"column {name}")

    def _noted(self, value: Any) -> Any:
        """Return a value; count it if it is a text that is written as a list."""
        if isinstance(value, str) and value.startswith("[") and written_list(value) is not None:
            how = "taken apart" if isinstance(value, ListCell) else "read as they are"
            count, first = self.lists.get(how, (0, str(value)))
            self.lists[how] = count + 1, first
        return value

    def _graded(
        self, positives: list[Document], negatives: list[Document], row: Mapping[str, Any], columns: _Columns
    ) -> list[Document]:
        """Return the documents with their grades and scores."""
        every = [*positives, *negatives]
        scores = self._scores(len(positives), len(negatives), row, columns)
        if columns.label:
            grades = self._labels(row, columns.label, len(positives), len(every))
        elif scores and not negatives and columns.scores != (BESIDE,) and not columns.are_separate():
            grades = self._grades_of_scores(scores, columns)
        else:
            grades = [1] * len(positives) + [None] * len(negatives)
        rows = zip(every, grades, scores or [document.score for document in every], strict=True)
        return [Document(it.text, it.id, grade, _or(score, it.score)) for it, grade, score in rows]

    def _labels(self, row: Mapping[str, Any], column: str, ahead: int, count: int) -> list[int | None]:
        """Return the grade of each document by its label; None for negatives without one."""
        labels = numbers(row.get(column), "label")
        refuse_row(not labels, f"no label (column {column})")
        if self.label is None and ahead < count != len(labels):
            _refuse_labels(column)
        refuse_row(len(labels) not in (ahead, count), "not as many labels as documents")
        names = self.classes.get(column)
        if names is not None and self.relevant_from is None:
            labels = [_of_class(label, names, column) for label in labels]
        return [*map(self._grade, labels), *[None] * (count - len(labels))]

    def _grade(self, label: float | None) -> int:
        if label is None:
            raise RowFault("no label")
        if self.relevant_from is not None:
            return int(label >= self.relevant_from)
        is_whole = label.is_integer()
        refuse_row(is_whole and abs(label) >= 2**31, f"a label is out of range ({label:.0f}): it has 32 bits")
        if not is_whole:
            remedy = "name it by collection.scores, or give a relevant document's lowest one: collection.relevant_from"
            raise RowFault(f"a label is no whole number ({label:g}): is it a score?", remedy)
        return int(label)

    def _grades_of_scores(self, scores: Sequence[float | None], columns: _Columns) -> list[int | None]:
        """Return the grades of documents that have scores, and neither labels nor negatives."""
        known = [score for score in scores if score is not None]
        if self.relevant_from is not None:
            below = self.relevant_from
            return [int(score >= below) for score in known] if len(known) == len(scores) else [None] * len(scores)
        remedy = "a score is no label: give a relevant document's lowest one (collection.relevant_from=0.8), "
        remedy += "or say that all documents are relevant (collection.scores=teacher)"
        what = f"has scores ({', '.join(columns.scores)}) and no labels"
        refuse_row(self.scores != "teacher" and not columns.negatives, what, remedy, always=True)
        return [1] * len(scores)

    def _scores(self, ahead: int, behind: int, row: Mapping[str, Any], columns: _Columns) -> list[float | None]:
        """Return a score per document, None if it has none; an empty list if none has."""
        given = [numbers(row.get(name), "score") for name in columns.scores]
        scores = list(itertools.chain.from_iterable(given))
        if not scores:
            return []
        if columns.are_separate():
            return [*_as_many(given[0], ahead, "pos_scores"), *_as_many(given[1], behind, "neg_scores")]
        if self.scores == "margin":
            what = f"has {ahead} positives and one margin per negative: it is unclear whose they are"
            refuse_row(ahead > 1, what, "write one row per positive, or set strict=false to skip and count such rows")
            margins = [None if margin is None else -margin for margin in scores]
            return [*[0.0] * ahead, *_as_many(margins, behind, "margins", "negatives")]
        if self.scores is None and ahead == behind == len(columns.scores) == len(scores) == 1:
            _refuse_one_score(row, columns.scores[0])
        if len(scores) not in (ahead + behind, behind):
            raise RowFault(f"not as many scores as documents ({len(scores)} for {ahead + behind})")
        return [None] * (ahead + behind - len(scores)) + scores


def _refuse_one_score(row: Mapping[str, Any], column: str) -> None:
    """Refuse one score of a document and a negative that is in no list: it is unclear what it scores."""
    what = f"has one score ({column}) for a document and a negative"
    remedy = "if it is the margin between them, set collection.scores=margin; if it is the negative's, "
    refuse_row(not isinstance(row.get(column), list), what, f"{remedy}collection.scores={column}", always=True)


def _refuse_labels(column: str) -> None:
    """Refuse labels next to negatives that are not one per document: sentence-transformers calls margins `label`."""
    what = f"has labels ({column}) beside negatives, and not one for each document"
    remedy = "if they are margins between the positive and each negative, set collection.scores=margin; if they are "
    raise RowFault(what, f"{remedy}grades of the positives, collection.label={column}", always=True)


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
    is_list = isinstance(value, list) and len(value) > 1
    refuse_row(not is_list, f"column {name} is no list of a query and a positive")
    return LISTED[name.lower()](value)


def _chosen(option: str | Sequence[str] | None, usual: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that an option names; the usual ones if it is not set."""
    if isinstance(option, str):
        return (option,)
    return tuple(usual if option is None else option)


def _or(score: float | None, other: float | None) -> float | None:
    return other if score is None else score


def _as_many(
    numbers: list[float | None], count: int, what: str, of: str = "documents"
) -> list[float | None]:  # fmt: skip
    """Return a number per document: those that are given, or None for all."""
    refuse_row(len(numbers) not in (0, count), f"{len(numbers)} {what} for {count} {of}")
    return numbers or [None] * count


def _of_class(label: float | None, names: Sequence[str], column: str) -> float | None:
    """Return the grade of a class that a file names."""
    grades = grades_of_classes(names)
    if grades is None:
        classes = ", ".join(map("{} is {}".format, range(len(names)), names))
        remedy = "if higher is more relevant, set collection.relevant_from=1, or name another column (collection.label)"
        what = f"column {column} has classes of which it is not known which are relevant ({classes})"
        raise RowFault(what, remedy, always=True)
    if label is None or label not in range(len(names)):
        raise RowFault(f"no label (column {column})")
    return float(grades[int(label)])


def _named(found: list[Document], ids: Any) -> list[Document]:
    """Return the documents with the ids that their row lists; as they are if it has none."""
    if ids is None:
        return found
    ids = ids if isinstance(ids, list | tuple) else [ids]
    refuse_row(len(ids) != len(found), f"not as many ids as documents ({len(ids)} for {len(found)})")
    return [document._replace(id=identifier(name)) for document, name in zip(found, ids, strict=True)]
