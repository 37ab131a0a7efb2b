"""Reads the instructions of queries from MTEB's files, which are next to the queries.

MTEB puts an instruction behind its query, with a blank between them, for every ranker (`mteb._create_dataloaders`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from pyrite.ranking.collections.faults import Faults, refuse_row
from pyrite.ranking.collections.names import first
from pyrite.ranking.collections.row_files import files_named, read_rows

FOLDERS = ("instruction", "instructions")
INSTRUCTION = "instruction"
QUERY_IDS = ("query-id", "query_id", "qid", "_id", "id")
READ = "queries with an instruction behind their text, as in MTEB"
SEVERAL = "queries with another instruction too (the first counts)"
UNKNOWN = "instructions of queries that are not there (left out)"


def instruction_files(folder: Path, subset: str | None) -> list[Path]:
    """Return the files of instructions in a folder: `instruction.jsonl`, or the parts in a folder of this name."""
    return files_named(folder, FOLDERS, subset)


def with_instructions(queries: pl.DataFrame, files: Sequence[Path], faults: Faults) -> pl.DataFrame:
    """Return queries (id, text, …) with their instructions behind their texts, after a blank.

    Of several instructions of a query the first counts, and the others are counted.
    """
    rows = [row for file in files for _, row in faults.read_each(read_rows(file, faults), _instruction, file)]
    every = pl.DataFrame(rows, {"id": pl.String, INSTRUCTION: pl.String}, orient="row")
    given = every.unique("id", keep="first", maintain_order=True)
    faults.note(SEVERAL, len(every.unique()) - len(given))
    joined = queries.join(given, on="id", how="left", maintain_order="left")
    faults.note(READ, joined[INSTRUCTION].count())
    faults.note(UNKNOWN, len(given.join(queries, on="id", how="anti")))
    text = pl.concat_str("text", INSTRUCTION, separator=" ", ignore_nulls=True)
    return joined.with_columns(text.alias("text")).drop(INSTRUCTION)


def _instruction(row: Mapping[str, object]) -> tuple[str, str]:
    name = first(QUERY_IDS, row)
    has = ", ".join(row) or "nothing"
    refuse_row(name is None or INSTRUCTION not in row, f"not a `query-id` and an `instruction`: it has {has}")
    refuse_row(not isinstance(row[INSTRUCTION], str), f"`{INSTRUCTION}` is not a string")
    return str(row[str(name)]), str(row[INSTRUCTION]).strip()
