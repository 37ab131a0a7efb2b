"""Tiny collections, made where a test wants them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

CORPUS = [
    {"_id": "d1", "title": "Moles", "text": "dig tunnels", "metadata": {"category": "animals", "subcategory": "small"}},
    {"_id": "d2", "title": "", "text": "Bats hang upside down", "metadata": {"category": "animals"}},
    {"_id": "d3", "text": "Quartz is a mineral"},
]
QUERIES = [
    {"_id": "q1", "text": "who digs?", "metadata": {"category": "biology", "subcategory": "moles"}},
    {"_id": "q2", "text": "who hangs?"},
    {"_id": "q3", "text": "what is quartz?"},
]
QRELS = {"train": [("q1", "d1", 1), ("q1", "d2", 0)], "dev": [("q2", "d2", 2)], "test": [("q3", "d3", 1)]}


@pytest.fixture
def write_beir(tmp_path: Path) -> Callable[..., Path]:
    """Writes a BEIR folder, by default three documents about animals and minerals; returns its path."""

    def write(
        corpus: Sequence[Mapping[str, object] | str] = CORPUS,
        queries: Sequence[Mapping[str, object] | str] = QUERIES,
        qrels: Mapping[str, Sequence[tuple[str, str, int]]] = QRELS,
        packed: bool = False,
        where: Path = tmp_path / "tiny",
    ) -> Path:
        where.mkdir(exist_ok=True)
        (where / "qrels").mkdir(exist_ok=True)
        for name, entries in (("corpus", corpus), ("queries", queries)):
            text = "".join(f"{entry if isinstance(entry, str) else json.dumps(entry)}\n" for entry in entries)
            if packed:
                (where / f"{name}.jsonl.gz").write_bytes(gzip.compress(text.encode()))
            else:
                (where / f"{name}.jsonl").write_text(text, encoding="utf-8")
        for split, rows in qrels.items():
            table = "query-id\tcorpus-id\tscore\n" + "".join(f"{q}\t{d}\t{grade}\n" for q, d, grade in rows)
            (where / "qrels" / f"{split}.tsv").write_text(table, encoding="utf-8")
        return where

    return write


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"
