"""Reads TREC collections: documents between `<DOC>` tags, topics and qrels."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path

import polars as pl

from pyrite.ranking.collections import trec_markup
from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.collections.json_documents import read_entries
from pyrite.ranking.collections.judgement_files import judgements_of
from pyrite.ranking.collections.opened import plain_name
from pyrite.ranking.collections.reader import DOCUMENTS, QUERIES, FolderReader, frames, groups_of, stamps, together
from pyrite.ranking.collections.topic_files import read_topics
from pyrite.ranking.errors import refuse
from pyrite.ranking.similar import similar_path

_USUAL_NAMES = {
    "qrels": re.compile(r"qrels|judg", re.I),
    "topics": re.compile(r"topics|queries", re.I),
    "documents": re.compile(r"docs|documents|corpus|collection", re.I),
}
_NOT_TEXT = re.compile(r"^(\.|read)|\.(md|dtd)$|^dtds?$", re.I)  # files of the TREC disks that are no documents


@dataclass
class Trec(FolderReader):
    """A TREC collection, such as Robust04 or Vaswani. It has no split, so it is cross-validated.

    If documents have a `<TEXT>`, it and the headline are their text; otherwise everything except their number. They may
    be JSON lines with an id and contents, as Pyserini has them. Topics may be `<top>` elements, XML, JSON, CSV or TSV,
    and judgements TREC's, BEIR's or JSON.

    Args:
        documents: a file, a folder of files or a glob (or several), relative to the path. None takes those whose name
            contains docs, documents, corpus or collection.
        topics: the file of topics, in the same way. None takes the one whose name contains topics or queries.
        qrels: the file of judgements, in the same way. None takes the one whose name contains qrels.
        fields: the fields of a query: title, description, narrative or several of them.
        encoding: the encoding of documents and topics. The TREC disks are in latin-1.
    """

    version = 4

    documents: str | Sequence[str] | None = None
    topics: str | Sequence[str] | None = None
    qrels: str | Sequence[str] | None = None
    fields: str | Sequence[str] = ("title",)
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        self.fields = _listed(self.fields)
        unknown = [repr(field) for field in self.fields if field not in trec_markup.FIELDS]
        remedy = f"take one or more of {', '.join(trec_markup.FIELDS)}"
        refuse(unknown, "topics have no field {}", "fields", remedy)
        refuse(not self.fields, "no field of the topics is named", "fields", remedy)

    def sources(self) -> dict[str, str]:
        return stamps([*self._files("documents"), *self._files("topics"), *self._files("qrels")])

    def read_documents(self, faults: Faults) -> Iterator[pl.DataFrame]:
        return self.read_portion(self._files("documents"), faults)

    def portions(self, size: int) -> Sequence[list[Path]]:
        return groups_of(self._files("documents"), size)

    def read_portion(self, portion: list[Path], faults: Faults) -> Iterator[pl.DataFrame]:
        return frames(itertools.chain.from_iterable(self._documents_of(file, faults) for file in portion), DOCUMENTS)

    def _documents_of(self, file: Path, faults: Faults) -> Iterator[tuple[object, ...]]:
        if plain_name(file).endswith((".jsonl", ".json")):
            return read_entries(file, faults)
        return trec_markup.documents(file, faults, self.encoding)

    def read_queries(self, faults: Faults) -> pl.DataFrame:
        files = self._files("topics")
        rows = (row for file in files for row in read_topics(file, list(self.fields), faults, self.encoding))
        return together(frames(rows, QUERIES), QUERIES)

    def read_judgements(self, faults: Faults) -> pl.DataFrame:
        return judgements_of(dict.fromkeys(self._files("qrels")).items(), faults)

    def _files(self, option: str) -> list[Path]:
        """Return the files that an option names, or those with the usual names."""
        named = getattr(self, option)
        here = self.folder
        if named is not None:
            return list(itertools.chain.from_iterable(_matching(here, one) for one in _listed(named)))
        paths = [path for path in sorted(here.iterdir()) if _looks_like(option, path.name)]
        refuse(not paths, f"no file looks like the {option}", here, f"name it: collection.{option}=FILE")
        what = f"{len(paths)} files look like the {option} ({', '.join(path.name for path in paths)})"
        remedy = f"name them: 'collection.{option}=[FILE,FILE]'"
        refuse(option != "documents" and len(paths) > 1, what, here, remedy)
        return _files_in(paths)


def _listed(named: str | Sequence[str]) -> list[str]:
    return [named] if isinstance(named, str) else list(named)


def _looks_like(option: str, name: str) -> bool:
    # "robust04-topics-docs.txt": a name with topics or qrels is not of documents.
    names = [kind for kind, usual in _USUAL_NAMES.items() if usual.search(name)]
    return not _NOT_TEXT.search(name) and names[:1] == [option]


def _matching(here: Path, named: str) -> list[Path]:
    pattern = os.path.expanduser(named)
    names = [pattern] if (here / pattern).exists() else sorted(glob(pattern, root_dir=here, recursive=True))
    paths = [here / name for name in names]
    refuse(not paths, "no such file", here / named, similar_path(here / named))
    return _files_in(paths)


def _files_in(paths: Iterable[Path]) -> list[Path]:
    """Return the files, and those of folders and of folders in them, except those known to hold no documents."""
    return list(itertools.chain.from_iterable(map(_text_files, paths)))


def _text_files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return _files_in(file for file in sorted(path.iterdir()) if not _NOT_TEXT.search(file.name))
