"""Defines the base of readers: what a format says about itself so that `open_collection` can read and cache it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import polars as pl

from ranking.collections.faults import Faults
from ranking.errors import BadInput

_PLACE = {"file": pl.String(), "line": pl.Int64()}
DOCUMENTS: Mapping[str, pl.DataType] = {
    "id": pl.String(),
    "text": pl.String(),
    "category": pl.String(),
    "subcategory": pl.String(),
    **_PLACE,
}
QUERIES = DOCUMENTS
JUDGEMENTS: Mapping[str, pl.DataType] = {
    "query": pl.String(),
    "document": pl.String(),
    "grade": pl.Int32(),
    "split": pl.String(),
    **_PLACE,
}
GIVEN: Mapping[str, pl.DataType] = {"query": pl.String(), "document": pl.String(), "score": pl.Float32()}


@dataclass(frozen=True)
class Span:
    """The lines of a file that begin in a range of its bytes.

    Args:
        start: byte that the first line begins at or after.
        stop: byte before which the last line begins.
    """

    start: int
    stop: int


Portion = Span | tuple[Path, ...]
"""Of a file, or some of several files."""


@dataclass
class Reader(ABC):
    """Reads one format. A new format is one subclass: it says where things are and takes lines apart.

    It does not look for duplicates, unknown ids or empty texts: `open_collection` does, for every format. Every row
    carries the file and line it came from, so that a fault can be named. Subclasses are dataclasses; their fields
    are the options a user sets, and a cached collection is found again by them.
    """

    version: ClassVar[int] = 1  # counted up when the same files would be read differently

    @property
    @abstractmethod
    def name(self) -> str:
        """What the collection is called in folders and reports."""

    @abstractmethod
    def sources(self) -> Mapping[str, str]:
        """What is read and its state, e.g. each file's path with its size and time: other state, other cache entry.

        Raises:
            BadInput: a file is missing.
        """

    @abstractmethod
    def read_documents(self, faults: Faults) -> Iterator[pl.DataFrame]:
        """The documents as frames of `DOCUMENTS`, each small enough to be held many times."""

    def portions(self, size: int) -> Sequence[Portion]:
        """What tasks may read of the documents beside each other, in their order, of about `size` bytes each.

        Fewer than two where there is nothing to share out.
        """
        return []

    def read_portion(self, portion: Portion, faults: Faults) -> Iterator[pl.DataFrame]:
        """The documents of one of `portions`; lines of a span are counted from its start."""
        raise NotImplementedError

    @abstractmethod
    def read_queries(self, faults: Faults) -> pl.DataFrame:
        """The queries, judged or not, as one frame of `QUERIES`."""

    @abstractmethod
    def read_judgements(self, faults: Faults) -> pl.DataFrame:
        """The judgements as one frame of `JUDGEMENTS`; `split` is that of the query, or null if there is none."""

    def read_given(self, faults: Faults) -> pl.DataFrame:
        """What stands with a query by itself, with a score or without (null): one frame of `GIVEN`, mostly empty."""
        return pl.DataFrame(schema=GIVEN)

    def facts(self) -> dict[str, str]:
        """What a report should state about where this came from. Asked after everything was read."""
        return {}


def frames(
    rows: Iterable[tuple[object, ...]],
    schema: Mapping[str, pl.DataType] = DOCUMENTS,
    most_rows: int = 50_000,
    most_characters: int = 32_000_000,
) -> Iterator[pl.DataFrame]:
    """Gather rows into frames of a bounded size.

    Args:
        rows: a tuple a row, in the order of the schema; the second value is its text.
        schema: the columns.
        most_rows, most_characters: a frame ends when it holds as many rows, or as much text.
    """
    gathered: list[tuple[object, ...]] = []
    characters = 0
    for row in rows:
        gathered.append(row)
        characters += len(row[1]) if isinstance(row[1], str) else 0
        if len(gathered) >= most_rows or characters >= most_characters:
            yield pl.DataFrame(gathered, schema, orient="row")
            gathered, characters = [], 0
    if gathered:
        yield pl.DataFrame(gathered, schema, orient="row")


def together(parts: Iterable[pl.DataFrame], schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """One frame of many, which may be none."""
    return pl.concat([pl.DataFrame(schema=schema), *(part.select(list(schema)) for part in parts)], rechunk=True)


def folder(path: str | Path) -> Path:
    """A folder that the user named; raises BadInput if it is none."""
    named = Path(path).expanduser()
    if not named.is_dir():
        raise BadInput("no such folder" if not named.exists() else "not a folder", named, "check path=")
    return named


def stamps(files: Iterable[Path]) -> dict[str, str]:
    """The state of files, by which a change is noticed: path, size in bytes and time of change in nanoseconds."""
    state = {}
    for file in files:
        try:
            status = file.stat()
        except FileNotFoundError:
            raise BadInput("no such file", file) from None
        state[str(file.resolve())] = f"{status.st_size} bytes, changed at {status.st_mtime_ns}"
    return state
