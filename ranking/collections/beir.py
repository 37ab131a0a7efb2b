"""Reads BEIR folders: documents and queries as JSON lines or parquet, judgements as one file per split.

Thakur et al. 2021, *BEIR: A Heterogeneous Benchmark for Zero-shot Evaluation of Information Retrieval Models*.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from pyrite.ranking.collections.candidate_files import FolderWithCandidates
from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.collections.instructions import instruction_files, with_instructions
from pyrite.ranking.collections.json_documents import read_entries
from pyrite.ranking.collections.judgement_files import judgements_of
from pyrite.ranking.collections.opened import plain_name
from pyrite.ranking.collections.reader import DOCUMENTS, QUERIES, frames, spans_of, stamps, together
from pyrite.ranking.collections.row_files import check_parts, files_named
from pyrite.ranking.collections.splits import SPLIT_FILES, TEST, split_named
from pyrite.ranking.errors import BadInput, refuse

TABLES = (".tsv", ".txt", ".csv", ".json", ".jsonl")
"""Endings of files of judgements."""
TEXTS = ("corpus", "queries")
"""Names of the files of documents and queries."""


@dataclass
class Beir(FolderWithCandidates):
    """A folder in the format of BEIR, as JSON lines or as parquet.

    It holds `corpus.jsonl` (`_id`, `title`, `text`), `queries.jsonl` (`_id`, `text`) and `qrels/train.tsv`,
    `qrels/dev.tsv`, `qrels/test.tsv` (at least one; query, document and grade under a header, or TREC's four columns).
    Ids may also be called `id`, `docid` or `qid`, and texts `contents` or `query`, as Pyserini and Tevatron write them.
    Any of them may be compressed. As on the hub, they may be folders of parquet files: `corpus/*.parquet`,
    `queries/*.parquet`, `qrels/test*.parquet` (or `default/` or `data/`, as MTEB has them). A query belongs to the
    split whose file judges it; those of one file `qrels.tsv` or `qrels.parquet` are cross-validated.
    `instruction.jsonl` or `instruction/*.parquet` (`query-id`, `instruction`) are put behind the queries' texts, as in
    MTEB. `metadata.category` and `metadata.subcategory` of documents and queries are kept.

    Args:
        subset: one of several collections in the same folders, whose files are called by them, as NanoBEIR's are on the
            hub (`corpus/NanoNQ-00000-of-00001.parquet`). Its queries are cross-validated.
    """

    version = 6

    subset: str | None = field(default=None, kw_only=True)

    @property
    def name(self) -> str:
        return self.subset or super().name

    def sources(self) -> dict[str, str]:
        return stamps([*self._read(), *self.given_files()])

    def read_documents(self, faults: Faults) -> Iterator[pl.DataFrame]:
        return frames(self._texts("corpus", faults), DOCUMENTS)

    def portions(self, size: int) -> Sequence[tuple[int, int]]:
        files = self._files("corpus")
        return spans_of(files[0], size) if files[0].suffix != ".parquet" else []

    def read_portion(self, portion: tuple[int, int], faults: Faults) -> Iterator[pl.DataFrame]:
        return frames(read_entries(self._files("corpus")[0], faults, portion), DOCUMENTS)

    def read_queries(self, faults: Faults) -> pl.DataFrame:
        queries = together(frames(self._texts("queries", faults), QUERIES), QUERIES)
        return with_instructions(queries, files, faults) if (files := self._instructions()) else queries

    def read_judgements(self, faults: Faults) -> pl.DataFrame:
        return judgements_of(self._qrels().items(), faults)

    def facts(self) -> dict[str, str]:
        return self.unread(self._read(), sorted(self._qrels_folder().glob("*")))

    def _read(self) -> list[Path]:
        """Return the files of documents, queries, instructions and judgements."""
        return [*self._files("corpus"), *self._files("queries"), *self._instructions(), *self._qrels()]

    def _texts(self, name: str, faults: Faults) -> Iterator[tuple[object, ...]]:
        return itertools.chain.from_iterable(read_entries(file, faults) for file in self._files(name))

    def _instructions(self) -> list[Path]:
        return instruction_files(self.folder, self.subset)

    def _files(self, name: str) -> list[Path]:
        """Return the files of documents or queries: one with a usual name, or the parts in a folder of this name."""
        files = files_named(self.folder, (name,), self.subset, ".json")
        if not files:
            raise self._without(name)
        check_parts(files)
        return files

    def _without(self, name: str) -> BadInput:
        """Return the error for a folder without documents or queries."""
        here = self.folder
        if self.subset is None and self.subsets():
            return self._without_qrels(here, [])
        inner = [inner for inner in sorted(here.iterdir()) if (inner / f"{name}.jsonl").exists()]
        there = ", ".join(sorted(file.name for file in here.iterdir())[:6]) or "nothing"
        remedy = f"name the folder in it: collection.path={inner[0]}" if inner else "a BEIR folder has one of them"
        what = f"no such file, and no {name}/*.parquet; the folder holds {there}"
        return BadInput(what, here / f"{name}.jsonl", remedy)

    def _qrels_folder(self) -> Path:
        """Return the folder of judgements: `qrels`, or `default` or `data` as MTEB has it, or that of a language."""
        folders = [self.folder / name for name in ("qrels", f"{self.subset}-qrels", "default", "data")]
        return next(filter(Path.is_dir, folders), folders[0])

    def _chosen(self, files: list[Path]) -> list[Path]:
        """Return the files of the subset that `subset` names, if it names one."""
        return files if self.subset is None else [file for file in files if file.name.startswith(f"{self.subset}-")]

    def _qrels(self) -> dict[Path, str]:
        """Return the split and path of each file of judgements; several if a split is in parts of parquet."""
        whole = [
            file for file in (self.folder / f"qrels{ending}" for ending in (*TABLES, ".parquet")) if file.is_file()
        ]
        qrels = self._qrels_folder()
        if whole and not qrels.is_dir():
            return {whole[0]: TEST}
        there = sorted(qrels.iterdir()) if qrels.is_dir() else []
        in_folder = self.subset is not None and qrels.name == "qrels"  # with the files of other subsets
        files = dict.fromkeys(self._chosen(there), TEST) if in_folder else self._of_splits(there)
        if not files:
            raise self._without_qrels(qrels, there)
        check_parts(files)
        return files

    def _of_splits(self, present: list[Path]) -> dict[Path, str]:
        """Return the split and path of the files that are called by a split; refuse two forms of one split."""
        files: dict[Path, str] = {}
        for split in SPLIT_FILES:
            parts = [file for file in present if file.suffix == ".parquet" and split_named(file.name) == split]
            plain = self._of_split(split, present)
            kinds = [*plain, *parts[:1]]
            both = " and ".join(file.name for file in kinds)
            remedy = "move one of them elsewhere"
            refuse(len(kinds) > 1, f"two files of the split {split} ({both})", self._qrels_folder(), remedy)
            files |= dict.fromkeys(parts or plain, split)
        return files

    def _of_split(self, split: str, present: list[Path]) -> list[Path]:
        """Return the files that are called by a split, each name once, packed or not."""
        names = {f"{name}{ending}" for name in SPLIT_FILES[split] for ending in TABLES}
        return list({plain_name(file): file for file in reversed(present) if plain_name(file) in names}.values())

    def subsets(self) -> list[str]:
        """Return the names of the collections that are in the same folders."""
        parts = (re.fullmatch(r"(.+)-00000-of-\d+\.parquet", file.name) for file in (self.folder / "qrels").glob("*"))
        of_folders = [folder.name.removesuffix("-qrels") for folder in self.folder.glob("*-qrels")]
        named = [match[1] for match in parts if match and not split_named(match[1])]
        return sorted([*named, *of_folders])

    def is_named_so(self) -> bool:
        """Return whether documents, queries and judgements of a split are called as in BEIR, be they whole or not."""
        texts = ({*self.folder.glob(f"{name}.json*"), *self.folder.glob(f"{name}/*.parquet")} for name in TEXTS)
        return all(texts) and any(split_named(file.name) for file in self._qrels_folder().glob("*"))

    def _without_qrels(self, qrels: Path, present: list[Path]) -> BadInput:
        """Return the error for a folder without judgements of a split."""
        if subsets := self.subsets():
            what = f"it holds the judgements of collections by name ({', '.join(subsets[:4])}; {len(subsets)} in all)"
            return BadInput(what, self.folder, f"choose one: collection.subset={subsets[0]}")
        there = f" (it holds {', '.join(file.name for file in present[:6])})" if present else ""
        remedy = "a BEIR folder has at least one: name the file by its split, for example qrels/test.tsv"
        return BadInput(f"no train.tsv, dev.tsv or test.tsv in it{there}", qrels, remedy)
