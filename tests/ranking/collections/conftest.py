"""Tiny collections, made where a test wants them."""

import gzip
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from pyrite.ranking.collections.cache import open_collection
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.collections.pairs import Pairs
from pyrite.ranking.collections.reader import Reader
from pyrite.ranking.errors import BadInput
from tests.made_up import write_texts
from tests.ranking.collections.animals import write_lines

Read = Callable[..., Collection]

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
def write_beir(tmp_path) -> Callable[..., Path]:
    """Writes a BEIR folder, by default three documents about animals and minerals; returns its path."""

    def write(
        corpus: Sequence[Mapping[str, object] | str] = CORPUS,
        queries: Sequence[Mapping[str, object] | str] = QUERIES,
        qrels: Mapping[str, Sequence[tuple[str, str, int]]] = QRELS,
        packed: bool = False,
        where: Path = tmp_path / "tiny",
    ) -> Path:
        write_texts(where, corpus, queries, qrels)
        for file in sorted(where.glob("*.jsonl")) if packed else ():
            file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
            file.unlink()
        return where

    return write


@pytest.fixture
def cache(tmp_path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def read(cache) -> Read:
    """Opens a collection by its reader, in a cache of the test."""

    def of(reader: Reader, strict: bool = True) -> Collection:
        return open_collection(reader, cache, strict)

    return of


@pytest.fixture
def pairs(tmp_path, read) -> Read:
    """Reads rows as pairs, from JSON lines."""

    def of(rows: Sequence[object], strict: bool = True, **options: object) -> Collection:
        return read(Pairs(write_lines(tmp_path / "rows.jsonl", rows), **options), strict)  # type: ignore[arg-type]

    return of


@pytest.fixture
def faulty(read) -> Read:
    """What is read of a collection without its fault, which is refused in one line: where, which, and what it says."""

    def of(reader: Reader, where: str, kind: str, says: str = "", count: int = 1) -> Collection:
        with pytest.raises(BadInput) as raised:
            read(reader)
        assert f"{where}: {kind}: " in str(raised.value)
        assert says in str(raised.value)
        assert "\n" not in str(raised.value)
        collection = read(reader, strict=False)
        assert collection.skipped == {kind: count}
        return collection

    return of
