"""Reads candidates of queries by id: hard negatives of other tools, triples, and runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from pyrite.ranking.collections.faults import Faults, RowFault
from pyrite.ranking.collections.json_rows import DECODER, json_rows, parsed
from pyrite.ranking.collections.judgement_files import run_rows
from pyrite.ranking.collections.lines import lines
from pyrite.ranking.collections.opened import plain_name
from pyrite.ranking.collections.reader import GIVEN, FolderReader
from pyrite.ranking.collections.row_files import read_rows
from pyrite.ranking.collections.row_forms import IDS, number

QUERIES = ("qid", "query_id", "query-id", "query")
DOCUMENTS = re.compile(r"(pos|neg|positive|negative)s?(_document|_passage)?(_?p?ids?)?(_\d+)?", re.I)
"""Names of columns of documents: pos, neg_pids, positive_ids, negative_document_ids, negative_2."""
SCORES = ("score", "ce-score", "ce_score")
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
    score = pl.col("score").drop_nulls()
    pairs = rows.group_by("query", "document", maintain_order=True).agg(score.first(), scores=score.n_unique())
    faults.note("candidates with several scores (the first counts)", int((pairs["scores"] > 1).sum()))
    return pairs.select(list(GIVEN))


def _candidates(file: Path, faults: Faults) -> Iterable[Candidate] | pl.DataFrame:
    if plain_name(file).endswith(".parquet"):
        first = next((row for _, row in read_rows(file, faults)), {})
        is_row = any(map(DOCUMENTS.fullmatch, first))
        return _of_rows(file, read_rows(file, faults), faults) if is_row else _of_run(file, faults)
    _, line = next(lines(file, Faults(strict=False)), (0, ""))
    line = line.strip()
    items = parsed(line) if line.startswith("[") else None
    if items and len(items) > 1 and not isinstance(items[0], list) and not any(isinstance(it, dict) for it in items):
        return _of_lists(file, faults)
    if line.startswith(("{", "[")):
        entry = next((entry for _, entry in json_rows(file, Faults(strict=False))), {})
        is_row = any(map(DOCUMENTS.fullmatch, entry))
        return _of_rows(file, json_rows(file, faults), faults) if is_row else _of_run(file, faults)
    cells = line.split("\t")
    if len(cells) == 4 and not re.fullmatch(r"-?[\d.]+", cells[2].strip()) and cells[2].strip().lower() != "rank":
        return _of_lines(file, r"\t", 4, faults)
    cells = re.split(_BETWEEN, line)
    third = cells[2].strip().lower() if len(cells) == 3 else "rank"
    is_rank = third == "1" and "triple" not in file.name.lower()  # as in MS MARCO's runs, whose first rank is 1
    is_triple = not is_rank and third not in ("rank", "score")
    return _of_lines(file, _BETWEEN, 3, faults) if is_triple else _of_run(file, faults)


def _of_run(file: Path, faults: Faults) -> pl.DataFrame:
    frames = [frame.select(pl.col(name).cast(kind) for name, kind in GIVEN.items()) for frame in run_rows(file, faults)]
    rows = pl.concat([pl.DataFrame(schema=GIVEN), *frames])
    if endless := int(rows["score"].is_infinite().sum()):
        faults.report("score out of range", "a score is infinite in single precision", file, times=endless)
    return rows.filter(~pl.col("score").is_infinite().fill_null(False))


def _of_lines(file: Path, between: str, count: int, faults: Faults) -> Iterator[Candidate]:
    """Yield the documents of lines of ids: all after the query of three, or the second of four cells."""
    for place, line in lines(file, faults):
        cells = re.split(between, line.strip())
        if len(cells) != count:
            faults.report("broken line", f"not {count} cells, but {len(cells)}", file, place)
        elif place > 1 or cells[0].lower() not in QUERIES:  # a header
            yield from ((cells[0], document, None) for document in (cells[1:] if count == 3 else cells[1:2]))


def _of_lists(file: Path, faults: Faults) -> Iterator[Candidate]:
    for place, line in lines(file, faults):
        try:
            query, *documents = DECODER.decode(line)
            pairs = [document if isinstance(document, list) else (document, None) for document in documents]
            scored = [(str(name), None if score is None else number(score, "score")) for name, score in pairs]
        except (ValueError, TypeError) as error:
            faults.report("broken line", f"no list of a query's id and documents' ids ({error})", file, place)
            continue
        yield from ((str(query), *document) for document in scored)


def _of_rows(file: Path, rows: Iterable[tuple[int, Mapping[str, Any]]], faults: Faults) -> Iterator[Candidate]:
    for place, row in rows:
        query = next((row[name] for name in QUERIES if row.get(name) is not None), None)
        names = [name for name in row if DOCUMENTS.fullmatch(name)]
        if query is None or not names:
            there = ", ".join(row) or "nothing"
            faults.report("broken line", f"no qid, or neither pos nor neg: it has {there}", file, place)
            continue
        try:
            documents = [document for name in names for document in _ids(row[name])]
        except RowFault as fault:
            faults.report_row(fault, file, place)
            continue
        yield from ((str(query), *document) for document in documents)


def _ids(value: Any) -> Iterator[tuple[str, float | None]]:
    if isinstance(value, Mapping):
        identifier = next((value[name] for name in IDS if name in value), None)
        if identifier is not None:
            score = next((value[name] for name in SCORES if value.get(name) is not None), None)
            yield str(identifier), None if score is None else number(score, "score")
            return
        value = list(value.values())
    if isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            yield from _ids(item)
    elif value is not None:
        yield str(value), None
