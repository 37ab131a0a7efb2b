"""Reads MS MARCO's tab-separated files, for passages and for documents.

Bajaj et al. 2016, *MS MARCO: A Human Generated MAchine Reading COmprehension Dataset*.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from pyrite.ranking.collections.candidate_files import FolderWithCandidates
from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.collections.judgement_files import judgements_of
from pyrite.ranking.collections.lines import lines, tables
from pyrite.ranking.collections.opened import ENDINGS
from pyrite.ranking.collections.reader import DOCUMENTS, QUERIES, spans_of, stamps, together
from pyrite.ranking.collections.splits import DEV, TEST, TRAIN
from pyrite.ranking.errors import refuse

_PASSAGE = {"id": pl.String(), "text": pl.String()}
_DOCUMENT = {"id": pl.String(), "_url": pl.String(), "title": pl.String(), "body": pl.String()}
_QUERY = {"id": pl.String(), "text": pl.String()}

# The first name that exists counts. Of the two dev sets of the passages the small one is generally used.
_USUAL_NAMES: Mapping[str, tuple[str, ...]] = {
    "documents": ("collection.tsv", "msmarco-docs.tsv", "passages.tsv", "documents.tsv", "docs.tsv"),
    "train queries": ("queries.train.tsv", "msmarco-doctrain-queries.tsv"),
    "dev queries": ("queries.dev.small.tsv", "queries.dev.tsv", "msmarco-docdev-queries.tsv"),
    "test queries": ("queries.test.tsv", "msmarco-test2019-queries.tsv", "msmarco-test2020-queries.tsv"),
    "train qrels": ("qrels.train.tsv", "msmarco-doctrain-qrels.tsv"),
    "dev qrels": ("qrels.dev.small.tsv", "qrels.dev.tsv", "msmarco-docdev-qrels.tsv"),
    "test qrels": (
        "qrels.test.tsv",
        "2019qrels-pass.txt",
        "2019qrels-docs.txt",
        "2020qrels-pass.txt",
        "2020qrels-docs.txt",
    ),
}
COLUMNS: Mapping[str, str] = {
    **dict.fromkeys(("id", "_id", "pid", "qid", "docid", "doc_id", "docno", "query_id", "passage_id"), "id"),
    **dict.fromkeys(("text", "passage", "query", "contents", "document", "query_text"), "text"),
    "title": "title",
    "body": "body",
}
"""Our columns by their names in a header."""
HEADER = {"url", *COLUMNS}
"""A line of only these is no document and no query."""


@dataclass
class MsMarco(FolderWithCandidates):
    """MS MARCO, or any collection in its form, plain or compressed, with or without a header.

    Documents have two columns (id, text) or four (id, url, title, body; the first line decides), queries two (id,
    text), qrels four (query, 0, document, grade). A query belongs to the split whose qrels judge it. MS MARCO keeps
    the judgements of its test queries secret, so the dev queries are the test unless there is another one: add
    TREC's queries and qrels to the folder, or name them.

    Args:
        documents: the file of documents. None takes collection.tsv, msmarco-docs.tsv and the like.
        queries: the file of queries of each split, as {train: …, dev: …, test: …}. None takes queries.train.tsv,
            msmarco-doctrain-queries.tsv and the like.
        qrels: the file of judgements of each split, in the same way. A split needs both.
    """

    version = 5

    documents: str | None = None
    queries: Mapping[str, str] | None = None
    qrels: Mapping[str, str] | None = None

    def sources(self) -> dict[str, str]:
        return stamps([*self._read(), *self.given_files()])

    def read_documents(self, faults: Faults) -> Iterator[pl.DataFrame]:
        return self.read_portion(None, faults)

    def portions(self, size: int) -> Sequence[tuple[int, int]]:
        return spans_of(self._documents(), size)

    def read_portion(self, portion: tuple[int, int] | None, faults: Faults) -> Iterator[pl.DataFrame]:
        file = self._documents()
        columns, named = _columns(file, _PASSAGE)
        text = pl.concat_str([name for name in ("title", "body", "text") if name in columns], separator=" ")
        for rows in tables(file, columns, faults, separator="\t", header=named, within=portion):
            yield rows.select("id", text.alias("text"), *_no_category(file), "line").select(*DOCUMENTS)

    def read_queries(self, faults: Faults) -> pl.DataFrame:
        parts = []
        for file in dict.fromkeys(queries for queries, _ in self._splits().values()):
            columns, named = _columns(file, _QUERY)
            rows = tables(file, columns, faults, separator="\t", header=named)
            parts += [part.with_columns(_no_category(file)) for part in rows]
        return together(parts, QUERIES)

    def read_judgements(self, faults: Faults) -> pl.DataFrame:
        return judgements_of([(file, split) for split, (_, file) in self._splits().items()], faults)

    def facts(self) -> dict[str, str]:
        guessed = [kind for kind in _USUAL_NAMES if not getattr(self, kind.split()[-1])]
        return self.unread(self._read(), (file for kind in guessed for file in self._present(kind)[1:]))

    def _read(self) -> list[Path]:
        """Return the files of documents, queries and judgements."""
        return [self._documents(), *itertools.chain.from_iterable(self._splits().values())]

    def _documents(self) -> Path:
        if self.documents:
            return self.named(self.documents)
        present = self._present("documents")
        usual = " or ".join(_USUAL_NAMES["documents"][:2])
        refuse(not present, f"no {usual}", self.path, "name the file: collection.documents=FILE")
        return present[0]

    def _splits(self) -> dict[str, tuple[Path, Path]]:
        """Return the files of queries and qrels of each split that has both."""
        unknown = sorted({*(self.queries or ()), *(self.qrels or ())} - {TRAIN, DEV, TEST})
        refuse(list(map(repr, unknown)), "no split is called {}", self.path, "take train, dev or test")
        splits = {}
        for split in (TRAIN, DEV, TEST):
            queries, qrels = self._of_split(split, "queries"), self._of_split(split, "qrels")
            if queries and qrels:
                splits[split] = queries, qrels
            named = split not in splits and split in (self.qrels or ())
            remedy = f"name them: 'collection.queries={{{split}: FILE}}'"
            refuse(named, f"no queries for the qrels of {split}", self.path, remedy)
        remedy = "name them: 'collection.queries={train: FILE}' 'collection.qrels={train: FILE}'"
        refuse(not splits, "no split has both its queries and its qrels", self.path, remedy)
        return splits

    def _of_split(self, split: str, what: str) -> Path | None:
        option: Mapping[str, str] | None = getattr(self, what)
        if option is None:
            return next(iter(self._present(f"{split} {what}")), None)
        return self.named(option[split]) if split in option else None

    def _present(self, kind: str) -> list[Path]:
        """Return the files with a usual name; the first one counts."""
        files = (self.folder / f"{name}{packed}" for name in _USUAL_NAMES[kind] for packed in ("", *ENDINGS))
        return list(filter(Path.exists, files))


def _columns(file: Path, usual: Mapping[str, pl.DataType]) -> tuple[dict[str, pl.DataType], bool]:
    """Return the columns of a file, by the names of its header or by their number, and whether it has a header."""
    _, first = next(lines(file, Faults(strict=False)), (0, ""))
    cells = [cell.strip().lower() for cell in first.rstrip("\r").split("\t")]
    named = [COLUMNS.get(cell, f"_{number}") for number, cell in enumerate(cells)]
    if "id" in named and len(set(named)) == len(named) and {"text", "body"} & set(named):
        return dict.fromkeys(named, pl.String()), True
    columns = _DOCUMENT if len(cells) == 4 and usual is _PASSAGE else usual
    return dict(columns), len(set(cells)) > 1 and set(cells) <= HEADER


def _no_category(file: Path) -> list[pl.Expr]:
    none = pl.lit(None, pl.String)
    return [none.alias("category"), none.alias("subcategory"), pl.lit(str(file)).alias("file")]
