"""Defines the base of readers: what `open_collection` needs to know of a format to read and cache it."""

from __future__ import annotations

import itertools
import os
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.collections.opened import compression_of, refuse_pipe
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.hub import local_path
from pyrite.ranking.part import Part
from pyrite.ranking.reading import Reading
from pyrite.ranking.similar import similar_path

OF_USE = {"self": ("drop", "keep"), "duplicates": ("keep", "merge")}
"""Options of all readers that do not change what is read, and their values, the default first."""
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
NOTED = ("queries ", "documents ", "files ", "judgements ", "candidates ", "rows ", "columns ", "packages ")
"""The beginnings of facts that are shown when a collection is opened."""
EVERYWHERE = pl.lit("")
"""The part of a reader that all queries are in, see `Reader.within`."""
PROMPTS: Mapping[str, pl.DataType] = {"query": pl.String(), "prompt": pl.String()}
GIVEN: Mapping[str, pl.DataType] = {"query": pl.String(), "document": pl.String(), "score": pl.Float32()}


@dataclass
class Reader(Part):
    """The base of all readers, one per format: finds the files and parses their lines.

    A reader does not look for duplicates, unknown ids or empty texts: `open_collection` does, for every format. Every
    row has its file and line, so that a fault can be named. Subclasses are dataclasses; their fields are the options
    that a user sets, and identify a cached collection.

    Args:
        tokenizer: how texts are cut into the words that BM25, tf·idf and rankers over words count: `words`,
            `characters` (for Chinese, Japanese, Thai and other scripts without blanks) or `subwords`.
        language: the language of stemmer and stop words. None neither stems nor drops any.
        subwords: the tokenizer of tokenizer=subwords: a folder, or a name at the hub.
        self: `drop` if a query that is a document of the collection (the same text, or the same id and one text at an
            end of the other, as in ArguAna and Quora) is never its negative and is left out of its ranking; `keep`
            otherwise.
        duplicates: `keep` documents with the same text in an evaluation, or `merge` them into the first, with their
            highest grade for a query; a run of `pyrite rank` names the one with that grade. In training, the text of a
            relevant document is never a negative, and no text is shown twice.
        qrels_repeated: the grade of a document that is judged more than once for a query, as for subtopics: the highest
            (`max`), the mean, rounded (`mean`), or none, and the file is refused (`stop`).
    """

    # Not Literals: the names of an inherited annotation are looked up in the module of the subclass.
    tokenizer: str = field(default="words", kw_only=True)
    language: str | None = field(default="english", kw_only=True)
    subwords: str | None = field(default=None, kw_only=True)
    self: str = field(default="drop", kw_only=True)
    duplicates: str = field(default="keep", kw_only=True)
    qrels_repeated: str = field(default="max", kw_only=True)
    within: ClassVar[pl.Expr] = EVERYWHERE  # queries of one text are one query if this is equal for them too
    version: ClassVar[int] = 1  # incremented when the same files are read differently

    @property
    def reading(self) -> Reading:
        """How texts are cut into words."""
        return Reading(self.tokenizer, self.language, self.subwords)  # type: ignore[arg-type]  # which checks it

    def faults(self, strict: bool) -> Faults:
        """Return what receives the faults of the files, and names the option of their encoding."""
        return Faults(strict, encoding="collection.encoding" if hasattr(self, "encoding") else None)

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the collection in folders and reports."""

    @abstractmethod
    def sources(self) -> Mapping[str, str]:
        """Return the sources and their state, e.g. each file's path with its size and time: part of the cache key.

        Raises:
            BadInput: if a file is missing.
        """

    @abstractmethod
    def read_documents(self, faults: Faults) -> Iterator[pl.DataFrame]:
        """Yield the documents as frames of `DOCUMENTS`, each small enough to be held many times."""

    def portions(self, size: int) -> Sequence[Any]:
        """Return parts of the documents that tasks may read in parallel, in their order, of about `size` bytes each.

        Each is what `read_portion` takes. Fewer than two if there is nothing to share.
        """
        return []

    def read_portion(self, portion: Any, faults: Faults) -> Iterator[pl.DataFrame]:
        """Yield the documents of one of `portions`; lines may be counted from its start."""
        raise NotImplementedError

    @abstractmethod
    def read_queries(self, faults: Faults) -> pl.DataFrame:
        """Return the queries, judged or not, as one frame of `QUERIES`."""

    @abstractmethod
    def read_judgements(self, faults: Faults) -> pl.DataFrame:
        """Return the judgements as one frame of `JUDGEMENTS`; `split` is the query's, or null if there is none."""

    def read_given(self, faults: Faults) -> pl.DataFrame:
        """Return the documents given with a query, with a score or null: one frame of `GIVEN`, mostly empty."""
        return pl.DataFrame(schema=GIVEN)

    def read_prompts(self, faults: Faults) -> pl.DataFrame:
        """Return the prompts of queries that have one: one frame of `PROMPTS`, mostly empty."""
        return pl.DataFrame(schema=PROMPTS)

    def facts(self) -> dict[str, str]:
        """Return facts about the source for a report. Called after everything was read."""
        return {}

    def source(self) -> dict[str, Any]:
        """Return how it was read: `name` of the file, `rows` and `columns`. It is no part of the fingerprint."""
        return {}


@dataclass
class FolderReader(Reader):
    """The base of the formats that are a folder of files; its name is that of the collection.

    Args:
        path: the folder.
    """

    path: str | Path

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    @property
    def folder(self) -> Path:
        """The folder.

        Raises:
            BadInput: if it is not a folder.
        """
        named = local_path(self.path)
        if named.exists():
            refuse_pipe(named)
        what = "not a folder" if named.exists() else "no such folder"
        refuse(not named.is_dir(), what, named, "check the path (collection.path=)")
        return named

    def named(self, file: str) -> Path:
        """Return the path of a file that an option names, relative to the folder, or else to the current one."""
        here, given = self.folder / Path(os.path.expanduser(file)), Path(os.path.expanduser(file))
        return given if given.is_file() and not here.exists() else here


def frames(
    rows: Iterable[tuple[object, ...]],
    schema: Mapping[str, pl.DataType] = DOCUMENTS,
    most_rows: int = 50_000,
    most_characters: int = 32_000_000,
) -> Iterator[pl.DataFrame]:
    """Gather rows into frames of a bounded size.

    Args:
        rows: one tuple per row, in the order of the schema; the second value is its text.
        most_rows: the maximum number of rows of a frame.
        most_characters: the number of characters after which a frame ends.
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
    """Concatenate any number of frames."""
    return pl.concat([pl.DataFrame(schema=schema), *(part.select(list(schema)) for part in parts)], rechunk=True)


def spans_of(file: Path, size: int) -> list[tuple[int, int]]:
    """Return ranges of about `size` bytes, in which each line of a file begins once; none for a packed file."""
    if not file.is_file() or compression_of(file):
        return []
    total = file.stat().st_size
    count = max(1, -(-total // size))
    return list(itertools.pairwise(total * number // count for number in range(count + 1)))


def groups_of(files: Sequence[Path], size: int) -> list[list[Path]]:
    """Group files in their order, so that each group except the last has `size` bytes or more."""
    groups: list[list[Path]] = [[]]
    total = 0
    for file in files:
        if total >= size:
            groups.append([])
            total = 0
        groups[-1].append(file)
        total += file.stat().st_size
    return groups


def not_read(files: Sequence[str]) -> dict[str, str]:
    """Return the fact about files that may hold data and are not read."""
    return {"files that are not read": f"{len(files):,} ({', '.join(files[:3])})"} if files else {}


def counted(counts: Mapping[str, tuple[int, str]]) -> dict[str, str]:
    """Return the facts that are so for some, each a number and what follows it."""
    return {what: f"{count:,}{more}" for what, (count, more) in counts.items() if count}


def stamps(files: Iterable[Path]) -> dict[str, str]:
    """Return the state of files, which shows a change: path, size in bytes and time of change in nanoseconds.

    A file is named as it was found, since a link's name may say the split; the file that a link leads to is added.
    """
    state = {}
    for file in files:
        try:
            status = file.stat()
        except FileNotFoundError:
            raise BadInput("no such file", file, similar_path(file)) from None
        path, target = os.path.abspath(file), str(file.resolve())
        of_link = "" if target == path else f", a link to {target}"
        state[path] = f"{status.st_size} bytes, changed at {status.st_mtime_ns}{of_link}"
    return state
