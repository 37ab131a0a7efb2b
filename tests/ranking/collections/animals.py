"""Rows about animals, written to files in the forms that users and tools have."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from pyrite.ranking.collections.collection import Collection
from tests.made_up import write_files, write_texts

ANIMALS = ("mole", "bat", "owl", "newt", "toad", "wasp", "carp", "pike", "swan", "crow", "hare", "lynx")
ROWS = [
    {"query": f"where does the {name} sleep", "answer": f"The {name} sleeps in hollow {name} trees"} for name in ANIMALS
]
EXPECTED = {row["query"]: {row["answer"]} for row in ROWS}
DOCUMENTS = [{"_id": f"d{n}", "title": "", "text": row["answer"]} for n, row in enumerate(ROWS)]
QUERIES = [{"_id": f"q{n}", "text": row["query"]} for n, row in enumerate(ROWS)]


def write_lines(path: Path, rows: Sequence[Any]) -> Path:
    """Write JSON lines."""
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path


def write_beir(
    folder: Path, qrels: Mapping[str, str], documents: Sequence[Any] = DOCUMENTS, queries: Sequence[Any] = QUERIES
) -> Path:
    """Write a BEIR folder with these texts of the files of judgements."""
    write_files(folder / "qrels", qrels)
    return write_texts(folder, documents, queries, {})


def answers(collection: Collection) -> dict[str, set[str]]:
    """The relevant texts of each query."""
    document = dict(collection.documents.select("id", "text").iter_rows())
    query = dict(collection.queries.select("id", "text").iter_rows())
    found: dict[str, set[str]] = {text: set() for text in query.values()}
    for asked, given in collection.judgements.filter(pl.col("grade") > 0).select("query", "document").iter_rows():
        found[query[asked]].add(document[given])
    return found
