"""Reads candidates of queries by id: hard negatives of other tools, triples, and runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from ranking.collections.faults import Faults
from ranking.collections.json_rows import json_rows
from ranking.collections.judgement_files import run_rows
from ranking.collections.lines import lines
from ranking.collections.reader import GIVEN
from ranking.collections.row_forms import IDS

QUERIES, POSITIVES = (
    ("qid", "query_id", "query-id", "query"),
    ("pos", "pos_pids", "positive", "positives", "positive_ids", "positive_document_ids"),
)
NEGATIVES = ("neg", "neg_pids", "negative", "negatives", "negative_ids", "negative_document_ids")


_BETWEEN = r"[\t,]|[ ]+"
"""A character between the ids of a triple."""


def read_candidates(file: Path, faults: Faults) -> pl.DataFrame:
    """Return candidates as a frame of `GIVEN`: query, document, and a score if the file has one.

    Args:
        file: JSON lines of a query, its positives and its negatives (a list, or lists by system, of ids or of objects
            with an id); lines of three ids (query, positive, negative) between tabs, commas or blanks; or a run.
        faults: receives each broken line.

    Raises:
        BadInput: if the file can't be read.
    """
    _, first = next(lines(file, Faults(strict=False)), (0, ""))
    if first.lstrip().startswith(("{", "[")):
        rows = pl.DataFrame(list(_json(file, faults)), GIVEN, orient="row")
    elif len(cells := re.split(_BETWEEN, first.strip())) == 3 and not _is_rank(cells[2], file):
        rows = pl.DataFrame(list(_triples(file, faults)), GIVEN, orient="row")
    else:
        rows = pl.concat([pl.DataFrame(schema=GIVEN), *(frame.select(
            "query", "document", pl.col("score").cast(pl.Float32)) for frame in run_rows(file, faults))])  # fmt: skip
    return rows.unique(["query", "document"], keep="first", maintain_order=True)


def _is_rank(cell: str, file: Path) -> bool:
    """Return whether the third of three columns is a rank, as in MS MARCO's runs: the first of them is 1."""
    return cell.strip() == "1" and "triple" not in file.name.lower()


def _triples(file: Path, faults: Faults) -> Iterator[tuple[str, str, None]]:
    for number, line in lines(file, faults):
        cells = re.split(_BETWEEN, line.strip())
        if len(cells) != 3:
            faults.report("broken line", f"{len(cells)} ids, not three", file, number)
            continue
        yield cells[0], cells[1], None
        yield cells[0], cells[2], None


def _json(file: Path, faults: Faults) -> Iterator[tuple[str, str, None]]:
    for number, entry in json_rows(file, faults):
        query = next((entry[name] for name in QUERIES if name in entry), None)
        names = [name for name in (*POSITIVES, *NEGATIVES) if name in entry]
        if query is None or not names:
            there = ", ".join(entry) or "nothing"
            faults.report("broken line", f"no qid, or neither pos nor neg: it has {there}", file, number)
            continue
        for name in names:
            for document in _ids(entry[name]):
                yield str(query), document, None


def _ids(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        identifier = next((value[name] for name in IDS if name in value), None)
        for item in value.values() if identifier is None else [identifier]:
            yield from _ids(item)
    elif isinstance(value, list):
        for item in value:
            yield from _ids(item)
    elif value is not None:
        yield str(value)
