"""Reads candidates of queries by id: hard negatives of other tools, triples, and runs."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial, singledispatch
from pathlib import Path
from typing import Any

import polars as pl

from pyrite.ranking.collections.checks import are_distinct
from pyrite.ranking.collections.faults import Faults, refuse_row
from pyrite.ranking.collections.json_rows import decoded, is_row, json_rows, parsed
from pyrite.ranking.collections.judgement_files import run_rows
from pyrite.ranking.collections.lines import lines
from pyrite.ranking.collections.names import IDS, first_value
from pyrite.ranking.collections.opened import plain_name
from pyrite.ranking.collections.reader import GIVEN, FolderReader, not_read
from pyrite.ranking.collections.row_files import NO_DATA, read_rows
from pyrite.ranking.collections.row_values import number, numbers

QUERIES = ("qid", "query_id", "query-id", "query")
DOCUMENTS = re.compile(
    r"(pos|neg|positive|negative)s?(_document|_passage)?(_?p?ids?)?(_\d+)?|(document|doc|passage|p)_?ids", re.I
)
"""Names of columns of documents: pos, neg_pids, positive_ids, negative_document_ids, negative_2, document_ids."""
SCORES = ("score", "ce-score", "ce_score")
SCORES_OF = {
    **dict.fromkeys(("document_ids", "doc_ids", "passage_ids", "docids", "pids", "p_ids"), "scores"),
    **{name: f"{name[:3]}_scores" for name in ("pos", "neg", "pos_ids", "neg_ids", "pos_pids", "neg_pids")},
}
"""The column of the scores of a column of documents, as PyLate's distillation data has them."""
Scored = tuple[str, float | None]
Candidate = tuple[str, str, float | None]
_BETWEEN = r"[\t,]|[ ]+"
"""A character between the ids of a triple."""


@dataclass
class FolderWithCandidates(FolderReader):
    """The base of the formats whose folders may have a file of candidates.

    Args:
        given: a file of candidates by id, for `function=given`: JSON lines as msmarco-hard-negatives has them, triples
            of ids, or a run.
    """

    given: str | None = field(default=None, kw_only=True)

    def given_files(self) -> list[Path]:
        """Return the file of candidates, if there is one."""
        return [self.named(self.given)] if self.given else []

    def read_given(self, faults: Faults) -> pl.DataFrame:
        return read_candidates(self.named(self.given), faults) if self.given else super().read_given(faults)

    def unread(self, read: Iterable[Path], first: Iterable[Path] = ()) -> dict[str, str]:
        """Return the fact about files of the folder that may hold data and are not read.

        Args:
            first: files that are named first, also of folders in it.
        """
        beside = dict.fromkeys([*first, *filter(Path.is_file, sorted(self.folder.iterdir()))])
        others = (file for file in beside if not NO_DATA.fullmatch(file.name))
        return not_read([file.name for file in others if file not in {*read, *self.given_files()}])


def read_candidates(file: Path, faults: Faults) -> pl.DataFrame:
    """Return candidates as a frame of `GIVEN`: query, document, and a score if the file has one.

    Args:
        file: JSON lines or parquet of a query, its positives and its negatives (a list, or lists by system, of ids or
            of objects with an id); JSON lines of a query's id and documents' ids, or pairs of an id and a score, as
            ColBERT has them; lines of three ids (query, positive, negative) between tabs, commas or blanks; lines of
            two ids and their texts between tabs, as MS MARCO's top1000; or a run.
        faults: receives each broken line.

    Raises:
        BadInput: if the file can't be read.
    """
    read = _candidates(file, faults)
    rows = read if isinstance(read, pl.DataFrame) else pl.DataFrame(list(read), GIVEN, orient="row")
    if rows.is_empty():
        faults.report("empty file", "has no candidates", file)
    return each_once(rows, faults)


def each_once(rows: pl.DataFrame, faults: Faults) -> pl.DataFrame:
    """Return candidates with each document once per query, with its first score; other scores of it are counted."""
    if are_distinct(rows, ["query", "document"]):
        return rows.select(list(GIVEN))
    score = pl.col("score").drop_nulls()
    pairs = rows.group_by("query", "document", maintain_order=True).agg(score.first(), scores=score.n_unique())
    faults.note("candidates with several scores (the first counts)", int((pairs["scores"] > 1).sum()))
    return pairs.select(list(GIVEN))


def _candidates(file: Path, faults: Faults) -> Iterable[Candidate] | pl.DataFrame:
    """Return the candidates of a file: those of the first of `FORMS` that it has, or those of a run."""
    if plain_name(file).endswith(".parquet"):
        is_row = any(map(DOCUMENTS.fullmatch, next((row for _, row in read_rows(file, faults)), {})))
        return _of_rows(file, read_rows(file, faults), faults) if is_row else _of_run(file, faults)
    first = next(lines(file, Faults(strict=False)), (0, ""))[1].strip()
    read = next((read for fits, read in FORMS if fits(file, first)), _of_run)
    return read(file, faults)


def _is_list(file: Path, line: str) -> bool:
    """Return whether lines are a query's id and documents' ids, or pairs of an id and a score."""
    items: Any = parsed(line) if line.startswith("[") else None
    return is_row(items) and not isinstance(items[0], list)


def _is_row(file: Path, line: str) -> bool:
    """Return whether a file is rows of a query and documents by name."""
    entries = json_rows(file, Faults(strict=False)) if line.startswith(("{", "[")) else iter(())
    return any(map(DOCUMENTS.fullmatch, next((entry for _, entry in entries), {})))


def _has_texts(file: Path, line: str) -> bool:
    """Return whether lines are two ids and their texts, as in MS MARCO's top1000."""
    cells = line.split("\t")
    return len(cells) == 4 and not re.fullmatch(r"-?[\d.]+|rank", cells[2].strip().lower())


def _is_triple(file: Path, line: str) -> bool:
    """Return whether lines are three ids. The first rank of a run is 1."""
    cells = re.split(_BETWEEN, line)
    third = cells[2].strip().lower() if len(cells) == 3 else "rank"
    no_triple = {"rank", "score"} if "triple" in file.name.lower() else {"rank", "score", "1"}
    return not line.startswith(("{", "[")) and third not in no_triple


def _of_run(file: Path, faults: Faults) -> pl.DataFrame:
    frames = [frame.select(pl.col(name).cast(kind) for name, kind in GIVEN.items()) for frame in run_rows(file, faults)]
    rows = pl.concat([pl.DataFrame(schema=GIVEN), *frames])
    within = ~pl.col("score").is_infinite().fill_null(False)
    return faults.only(rows, within, "score out of range", "a score is infinite in single precision", file)


def _of_lines(file: Path, faults: Faults, between: str, count: int, last: int) -> Iterator[Candidate]:
    """Yield the documents of lines of `count` cells: those after the query, up to the `last`."""
    for place, line in lines(file, faults):
        query, *documents = re.split(between, line.strip())
        if len(documents) + 1 != count:
            faults.report("broken line", f"not {count} cells, but {len(documents) + 1}", file, place)
        elif place > 1 or query.lower() not in QUERIES:  # a header
            yield from ((query, document, None) for document in documents[:last])


def _of_lists(file: Path, faults: Faults) -> Iterator[Candidate]:
    for place, line in lines(file, faults):
        try:
            query, *documents = decoded(line)
            pairs = [document if isinstance(document, list) else (document, None) for document in documents]
            scored = [(str(name), None if score is None else number(score, "score")) for name, score in pairs]
        except (ValueError, TypeError, RecursionError) as error:
            faults.report("broken line", f"no list of a query's id and documents' ids ({error})", file, place)
            continue
        yield from ((str(query), *document) for document in scored)


def _json_rows(file: Path, faults: Faults) -> Iterator[Candidate]:
    return _of_rows(file, json_rows(file, faults), faults)


FORMS: tuple[tuple[Callable[[Path, str], bool], Callable[[Path, Faults], Iterable[Candidate]]], ...] = (
    (_is_list, _of_lists),
    (_is_row, _json_rows),
    (_has_texts, partial(_of_lines, between=r"\t", count=4, last=1)),
    (_is_triple, partial(_of_lines, between=_BETWEEN, count=3, last=2)),
)
"""The forms of candidates that are no run, by their first line, and how each is read."""


def _of_rows(file: Path, rows: Iterable[tuple[int, Mapping[str, Any]]], faults: Faults) -> Iterator[Candidate]:
    """Yield the candidates of rows: a query's id, and lists of documents by name, with their scores."""
    for _, candidates in faults.read_each(rows, _of_row, file):
        yield from candidates


def _of_row(row: Mapping[str, Any]) -> list[Candidate]:
    query = first_value(QUERIES, row)
    names = list(filter(DOCUMENTS.fullmatch, row))
    what = f"no qid, or neither pos nor neg: it has {', '.join(row) or 'nothing'}"
    refuse_row(query is None or not names, what)
    scores = {name: row.get(SCORES_OF[name]) for name in names if name in SCORES_OF}
    lists = [_scored(_ids(row[name]), scores.get(name)) for name in names]
    return [(str(query), *document) for documents in lists for document in documents]


def _scored(found: list[Scored], scores: Any) -> list[Scored]:
    """Return documents with the scores of a parallel list, if there is one."""
    beside = numbers(scores, "score")
    what = f"not as many scores as documents ({len(beside)} for {len(found)})"
    refuse_row(len(beside) not in (0, len(found)), what)
    return [(name, given) for (name, _), given in zip(found, beside, strict=True)] if beside else found


@singledispatch
def _ids(value: object) -> list[Scored]:
    """Return the ids of a value and their scores: an id, an object with one, lists of these, or lists by system."""
    return [(str(value), None)]


@_ids.register
def _of_nothing(value: None) -> list[Scored]:
    return []


@_ids.register
def _of_text(value: str) -> list[Scored]:
    items = parsed(value) if value.startswith("[") else None  # a cell of CSV
    return _ids(items) if items else [(value, None)]


@_ids.register
def _of_object(value: Mapping) -> list[Scored]:
    identifier, score = first_value(IDS, value), first_value(SCORES, value)
    if identifier is None:
        return _ids(list(value.values()))
    return [(str(identifier), None if score is None else number(score, "score"))]


@_ids.register
def _of_list(value: list | tuple) -> list[Scored]:
    return list(itertools.chain.from_iterable(map(_ids, value)))
