"""Reads BEIR folders: documents and queries as JSON lines or parquet, judgements as one file per split.

Thakur et al. 2021, *BEIR: A Heterogeneous Benchmark for Zero-shot Evaluation of Information Retrieval Models*.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from pyrite.ranking.collections.candidate_files import FolderWithCandidates
from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.collections.json_documents import read_entries
from pyrite.ranking.collections.judgement_files import judgements_of
from pyrite.ranking.collections.opened import ENDINGS, plain_name
from pyrite.ranking.collections.reader import DOCUMENTS, QUERIES, frames, not_read, spans_of, stamps, together
from pyrite.ranking.collections.row_files import NO_DATA
from pyrite.ranking.collections.splits import SPLIT_FILES, split_named
from pyrite.ranking.errors import BadInput

TABLES = (".tsv", ".txt", ".csv", ".json", ".jsonl")
"""Endings of files of judgements."""


@dataclass
class Beir(FolderWithCandidates):
    """A folder in the format of BEIR, as JSON lines or as parquet.

    It holds `corpus.jsonl` (`_id`, `title`, `text`), `queries.jsonl` (`_id`, `text`) and `qrels/train.tsv`,
    `qrels/dev.tsv`, `qrels/test.tsv` (at least one; query, document and grade under a header, or TREC's four columns).
    Ids may also be called `id`, `docid` or `qid`, and texts `contents` or `query`, as Pyserini and Tevatron write them.
    Any of them may be compressed. As on the hub, they may be folders of parquet files: `corpus/*.parquet`,
    `queries/*.parquet`, `qrels/test*.parquet` (or `default/`, as MTEB has them). A query belongs to the split whose
    file judges it. `metadata.category` and `metadata.subcategory` of documents and queries are kept.
    """

    version = 3

    def sources(self) -> dict[str, str]:
        files = [*self._files("corpus"), *self._files("queries"), *(file for _, file in self._qrels())]
        return stamps([*files, *self.given_files()])

    def read_documents(self, faults: Faults) -> Iterator[pl.DataFrame]:
        return frames(self._texts("corpus", faults), DOCUMENTS)

    def portions(self, size: int) -> Sequence[tuple[int, int]]:
        files = self._files("corpus")
        return spans_of(files[0], size) if files[0].suffix != ".parquet" else []

    def read_portion(self, portion: tuple[int, int], faults: Faults) -> Iterator[pl.DataFrame]:
        return frames(read_entries(self._files("corpus")[0], faults, portion), DOCUMENTS)

    def read_queries(self, faults: Faults) -> pl.DataFrame:
        return together(frames(self._texts("queries", faults), QUERIES), QUERIES)

    def read_judgements(self, faults: Faults) -> pl.DataFrame:
        return judgements_of(self._qrels(), faults)

    def facts(self) -> dict[str, str]:
        read = {file.name for _, file in self._qrels()}
        others = [file.name for file in sorted(self._qrels_folder().iterdir()) if file.name not in read]
        others = [name for name in others if not NO_DATA.fullmatch(name)]
        for name in ("corpus", "queries"):
            read_name = self._files(name)[0].name
            twins = (f"{name}.jsonl{ending}" for ending in ("", *ENDINGS))
            others += [twin for twin in twins if twin != read_name and (self.folder / twin).exists()]
        return not_read(others)

    def _texts(self, name: str, faults: Faults) -> Iterator[tuple[object, ...]]:
        for file in self._files(name):
            yield from read_entries(file, faults)

    def _files(self, name: str) -> list[Path]:
        here = self.folder
        plain = here / f"{name}.jsonl"
        names = [f"{name}.jsonl{packed}" for packed in ("", *ENDINGS)] + [f"{name}.parquet", f"{name}.json"]
        if file := next((here / file for file in names if (here / file).exists()), None):
            return [file]
        parts = sorted((here / name).glob("*.parquet"))
        if not parts:
            inner = sorted(inner for inner in here.iterdir() if inner.is_dir() and (inner / plain.name).exists())
            there = ", ".join(sorted(file.name for file in here.iterdir())[:6]) or "nothing"
            remedy = f"name the folder in it: collection.path={inner[0]}" if inner else "a BEIR folder has one of them"
            raise BadInput(f"no such file, and no {name}/*.parquet; the folder holds {there}", plain, remedy)
        return parts

    def _qrels_folder(self) -> Path:
        here = self.folder
        return here / "default" if not (here / "qrels").exists() and (here / "default").is_dir() else here / "qrels"

    def _qrels(self) -> list[tuple[str, Path]]:
        """Return the split and path of each file of judgements; several if a split is in parts of parquet."""
        qrels = self._qrels_folder()
        present = sorted(qrels.iterdir()) if qrels.is_dir() else []
        files: list[tuple[str, Path]] = []
        for split, names in SPLIT_FILES.items():
            plain = [
                file for file in present if plain_name(file) in {f"{n}{ending}" for n in names for ending in TABLES}
            ]
            parts = [file for file in present if file.suffix == ".parquet" and split_named(file.name) == split]
            # The same name packed and unpacked is one file.
            kinds = {plain_name(file): file for file in reversed(plain)} | ({"parquet": parts[0]} if parts else {})
            if len(kinds) > 1:
                both = " and ".join(file.name for file in kinds.values())
                raise BadInput(f"two files of the split {split} ({both})", qrels, "move one of them elsewhere")
            files += [(split, file) for file in parts or list(kinds.values())]
        if not files:
            there = f" (it holds {', '.join(file.name for file in present[:6])})" if present else ""
            remedy = "a BEIR folder has at least one: name the file by its split, for example qrels/test.tsv"
            raise BadInput(f"no train.tsv, dev.tsv or test.tsv in it{there}", qrels, remedy)
        return files
