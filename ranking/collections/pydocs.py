"""Builds the built-in collection from the docstrings of Python's standard library and of a fixed list of packages.

It is real text on every machine, without a download. A docstring's first paragraph summarises in a sentence what the
rest explains, like a question and its answer.
"""

from __future__ import annotations

import itertools
import os
import platform
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from importlib.metadata import Distribution
from pathlib import Path
from typing import Literal, NamedTuple

import polars as pl

from pyrite.ranking.bounds import checked
from pyrite.ranking.collections import packages
from pyrite.ranking.collections.docstrings import Docstring, docstrings
from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.collections.packages import Source
from pyrite.ranking.collections.reader import DOCUMENTS, JUDGEMENTS, QUERIES, Reader, frames, stamps, together
from pyrite.ranking.collections.splits import DEV, TEST, TRAIN
from pyrite.ranking.errors import refuse

_PARAGRAPHS = re.compile(r"\n[ \t]*\n")
_FEWEST_MEMBERS = 3
_FEWEST_WORDS = {"first_paragraph": 40, "topics": 15, "code": 20}
STANDARD_LIBRARY = "python"
"""The name of the standard library among the packages."""


class _Entry(NamedTuple):
    """A docstring with its place among the packages, split into its parts."""

    id: str
    name: str
    kind: str
    module: str
    first: str
    rest: str
    whole: str

    @property
    def place(self) -> tuple[str, str]:
        """Its module and its dotted name."""
        return self.module, self.name

    def is_topic(self, fewest: int) -> bool:
        """Return whether its first paragraph has enough words for a topic, and it is no function."""
        return self.kind != "function" and _has_words(self.first, fewest)

    def row(self, text: str) -> tuple[object, ...]:
        return self.id, text, self.module.partition(".")[0], self.module, self.module, None


class _Documentation(NamedTuple):
    documents: list[tuple[object, ...]]
    queries: list[tuple[object, ...]]
    judgements: list[tuple[object, ...]]


@checked
@dataclass
class Pydocs(Reader):
    """The docstrings of the standard library and of the packages that `pyrite.ranking.collections.packages.PACKAGES`
    names.

    The category is the package (`torch`), the subcategory the module (`torch.nn.functional`), ids are dotted names
    (`torch.nn.functional.relu`). Nearly empty and repeated texts are dropped, modules for tests are not read. Other
    versions of the packages make another collection, so the versions are part of its fingerprint and its facts.
    Queries are split 80/10/10 by a hash of their text.

    Args:
        queries: "first_paragraph": the first paragraph of a docstring is the query, the rest its one relevant
            document; about 27,000 pairs. Or "topics", an ad hoc task: the first paragraph of a class or module is
            the topic, and the whole docstrings of its members (of its methods, or of its classes and functions) are
            its relevant documents, at least three. Equal topics are one, with the members of both. A class that is a
            topic contributes only the rest of its docstring as a document: the first paragraph would find itself.
        query_words: shorter queries are dropped.
        document_words: shorter documents are dropped; 40 for first paragraphs, 15 for topics and 20 for code if not
            given.
        documents: "docstring", or "code": the first paragraph of a function's docstring is the query, the function
            without its docstring its one relevant document; about 47,000 pairs.
        packages: those of `PACKAGES` that are read, and "python" for the standard library; all if not given.
        folders: source trees to read instead, such as your code.
    """

    queries: Literal["first_paragraph", "topics"] = "first_paragraph"
    query_words: int = 3
    document_words: int | None = None
    documents: Literal["docstring", "code"] = "docstring"
    packages: Sequence[str] | None = None
    folders: Sequence[str | Path] | None = None

    def __post_init__(self) -> None:
        known = [STANDARD_LIBRARY, *packages.PACKAGES]
        refuse(
            self.documents == "code" and self.queries == "topics",
            "topics have docstrings as documents",
            "collection.documents=code",
            "leave one of them out",
        )
        for name in self.packages or ():
            refuse(
                name not in known,
                f"no package {name!r} is read",
                "collection.packages",
                f"choose from {', '.join(known)}",
            )
            refuse(
                name != STANDARD_LIBRARY and name not in packages.installed(),
                f"{name} is not installed",
                "collection.packages",
                f"pip install {name}",
            )

    @property
    def name(self) -> str:
        kind = "-topics" if self.queries == "topics" else "-code" if self.documents == "code" else ""
        return f"pydocs{kind}"

    def sources(self) -> Mapping[str, str]:
        return self._versions if self.folders is None else stamps(source.path for source in self._sources)

    def read_documents(self, faults: Faults) -> Iterator[pl.DataFrame]:
        return frames(self._content.documents, DOCUMENTS)

    def read_queries(self, faults: Faults) -> pl.DataFrame:
        return together(frames(self._content.queries, QUERIES), QUERIES)

    def read_judgements(self, faults: Faults) -> pl.DataFrame:
        return together(frames(self._content.judgements, JUDGEMENTS), JUDGEMENTS)

    def facts(self) -> dict[str, str]:
        if self.folders is not None:
            return {}
        facts = {"packages": ", ".join(f"{name} {version}" for name, version in self._versions.items())}
        known = {*self._versions, STANDARD_LIBRARY}
        absent = [name for name in self.packages or packages.PACKAGES if name not in known]
        return facts | ({"packages that are not installed": ", ".join(absent)} if absent else {})

    @cached_property
    def _versions(self) -> dict[str, str]:
        return {
            "Python": platform.python_version(),
            **{name: one.version for name, one in self._installed.items()},
        }

    @cached_property
    def _installed(self) -> dict[str, Distribution]:
        return {name: one for name, one in packages.installed().items() if name in (self.packages or [name])}

    @cached_property
    def _sources(self) -> list[Source]:
        if self.folders is not None:
            trees = [packages.tree(Path(os.path.expanduser(folder))) for folder in self.folders]
        else:
            trees = list(map(packages.sources, self._installed.values()))
            if STANDARD_LIBRARY in (self.packages or [STANDARD_LIBRARY]):
                trees.insert(0, packages.standard_library())
        distinct = {source.path: source for source in itertools.chain(*trees) if source.path.is_file()}
        return sorted(distinct.values(), key=lambda source: (source.module, source.path))

    @cached_property
    def _content(self) -> _Documentation:
        sources = self._sources
        files = [(source.module, str(source.path)) for source in sources]
        extracted = docstrings(files, bytecode=self.folders is None, code=self.documents == "code")
        entries = list(_entries(extracted, [source.module for source in sources]))
        kind = "code" if self.documents == "code" else self.queries
        fewest = _FEWEST_WORDS[kind] if self.document_words is None else self.document_words
        if self.queries == "topics":
            return _topics(entries, self.query_words, fewest)
        return _pairs(entries, self.query_words, fewest)


def _entries(extracted: Sequence[Docstring], modules: Sequence[str]) -> Iterator[_Entry]:
    times: dict[str, int] = {}
    for docstring in extracted:
        # Escapes in a docstring can encode half a character, which no encoding can write.
        whole = docstring.text.encode("utf-8", "replace").decode().strip()
        first, *rest = _PARAGRAPHS.split(whole, maxsplit=1)
        times[docstring.name] = count = times.get(docstring.name, 0) + 1
        # A name defined twice: overloads, a property and its setter, two branches of an `if`.
        id = docstring.name if count == 1 else f"{docstring.name}#{count}"
        module = modules[docstring.file]
        answer = docstring.code.encode("utf-8", "replace").decode() or "".join(rest).strip()
        yield _Entry(id, docstring.name, docstring.kind, module, _flat(first), answer, whole)


def _pairs(entries: Sequence[_Entry], query_words: int, document_words: int) -> _Documentation:
    content = _Documentation([], [], [])
    queries: set[str] = set()
    answers: set[str] = set()
    for entry in entries:
        answer = _flat(entry.rest)
        long_enough = _has_words(entry.first, query_words) and _has_words(answer, document_words)
        if not long_enough or entry.first in queries or answer in answers:
            continue
        queries.add(entry.first)
        answers.add(answer)
        content.documents.append(entry.row(entry.rest))
        content.queries.append(entry.row(entry.first))
        content.judgements.append((entry.id, entry.id, 1, _split(entry.first), entry.module, None))
    return content


def _topics(entries: Sequence[_Entry], query_words: int, document_words: int) -> _Documentation:
    members = _members(entries, document_words)
    topical = {
        entry.id: entry for entry in entries
        if len(members.get(entry.place, ())) >= _FEWEST_MEMBERS and entry.is_topic(query_words)
    }  # fmt: skip
    texts, documents = _documents(itertools.chain(*members.values()), topical, document_words)

    topics: dict[str, tuple[_Entry, dict[str, None]]] = {}
    for entry in topical.values():
        _, relevant = topics.setdefault(entry.first, (entry, {}))
        answers = (texts[member.id] for member in members[entry.place] if member.id in texts)
        relevant |= dict.fromkeys(documents[_flat(answer)].id for answer in answers)

    content = _Documentation([entry.row(texts[entry.id]) for entry in documents.values()], [], [])
    for text, (entry, relevant) in topics.items():
        if len(relevant) >= _FEWEST_MEMBERS:
            content.queries.append(entry.row(text))
            content.judgements.extend((entry.id, id, 1, _split(text), entry.module, None) for id in relevant)
    return content


def _members(entries: Iterable[_Entry], fewest: int) -> dict[tuple[str, str], list[_Entry]]:
    """Return the docstrings that are long enough, by the module and dotted name of their parent."""
    members: dict[tuple[str, str], list[_Entry]] = {}
    for entry in entries:
        if entry.kind != "module" and _has_words(entry.whole, fewest):
            members.setdefault((entry.module, entry.name.rpartition(".")[0]), []).append(entry)
    return members


def _documents(
    members: Iterable[_Entry], topics: Container[str], fewest: int
) -> tuple[dict[str, str], dict[str, _Entry]]:
    """Return the texts of members by their ids, and the document of each text.

    Equal docstrings of several members are one document. The first paragraph of a topic is none.
    """
    texts: dict[str, str] = {}
    documents: dict[str, _Entry] = {}
    for entry in members:
        text = entry.rest if entry.id in topics else entry.whole
        if _has_words(text, fewest):
            documents.setdefault(_flat(text), entry)
            texts[entry.id] = text
    return texts, documents


def _split(text: str) -> str:
    share = int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) / 2**64
    return TRAIN if share < 0.8 else DEV if share < 0.9 else TEST


def _flat(text: str) -> str:
    return " ".join(text.split())


def _has_words(text: str, fewest: int) -> bool:
    # Possessive (`++`), so that it neither counts a word twice nor looks beyond the last one needed.
    return re.match(rf"(?:\W*+\w++){{{fewest}}}", text) is not None
