"""Reads BEIR folders: documents and queries as JSON lines or parquet, judgements as one file per split.

Thakur et al. 2021, *BEIR: A Heterogeneous Benchmark for Zero-shot Evaluation of Information Retrieval Models*.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from ranking.collections.candidate_files import read_candidates
from ranking.collections.faults import Faults
from ranking.collections.judgement_files import qrels_rows
from ranking.collections.lines import lines
from ranking.collections.opened import ENDINGS
from ranking.collections.reader import (
    DOCUMENTS,
    JUDGEMENTS,
    QUERIES,
    Portion,
    Reader,
    Span,
    folder,
    frames,
    stamps,
    together,
)
from ranking.collections.spans import spans_of
from ranking.collections.splits import SPLIT_FILES
from ranking.errors import BadInput


@dataclass
class Beir(Reader):
    """A folder in the format of BEIR, as JSON lines or as parquet.

    It holds `corpus.jsonl` (`_id`, `title`, `text`), `queries.jsonl` (`_id`, `text`) and `qrels/train.tsv`,
    `qrels/dev.tsv`, `qrels/test.tsv` (at least one; query, document and grade under a header, or TREC's four columns).
    Any of them may be compressed. As on the hub, they may be folders of parquet files: `corpus/*.parquet`,
    `queries/*.parquet`, `qrels/test*.parquet`. A query belongs to the split whose file judges it.
    `metadata.category` and `metadata.subcategory` of documents and queries are kept.

    Args:
        path: the folder.
        given: a file of candidates by id, for `function=given`: JSON lines as msmarco-hard-negatives has them, triples
            of ids, or a run.
    """

    version = 2

    path: str | Path
    given: str | None = field(default=None, kw_only=True)

    @property
    def name(self) -> str:
        return folder(self.path).resolve().name

    def sources(self) -> dict[str, str]:
        files = [*self._files("corpus"), *self._files("queries"), *self._qrels().values()]
        return stamps([*files, *([self._given()] if self.given else [])])

    def read_documents(self, faults: Faults) -> Iterator[pl.DataFrame]:
        return frames(self._texts("corpus", faults), DOCUMENTS)

    def portions(self, size: int) -> Sequence[Portion]:
        files = self._files("corpus")
        return spans_of(files[0], size) if files[0].suffix != ".parquet" else []

    def read_portion(self, portion: Portion, faults: Faults) -> Iterator[pl.DataFrame]:
        assert isinstance(portion, Span)
        return frames(_texts(self._files("corpus")[0], faults, (portion.start, portion.stop)), DOCUMENTS)

    def read_queries(self, faults: Faults) -> pl.DataFrame:
        return together(frames(self._texts("queries", faults), QUERIES), QUERIES)

    def read_judgements(self, faults: Faults) -> pl.DataFrame:
        parts = [
            rows.with_columns(pl.lit(split).alias("split"), pl.lit(str(file)).alias("file"))
            for split, file in self._qrels().items()
            for rows in qrels_rows(file, faults)
        ]
        return together(parts, JUDGEMENTS)

    def read_given(self, faults: Faults) -> pl.DataFrame:
        return read_candidates(self._given(), faults) if self.given else super().read_given(faults)

    def _given(self) -> Path:
        return folder(self.path) / Path(str(self.given)).expanduser()

    def _texts(self, name: str, faults: Faults) -> Iterator[tuple[object, ...]]:
        for file in self._files(name):
            yield from (_parquet(file, faults) if file.suffix == ".parquet" else _texts(file, faults))

    def _files(self, name: str) -> list[Path]:
        here = folder(self.path)
        plain = here / f"{name}.jsonl"
        for file in (plain, *(plain.with_name(plain.name + ending) for ending in ENDINGS), here / f"{name}.parquet"):
            if file.exists():
                return [file]
        parts = sorted((here / name).glob("*.parquet"))
        if not parts:
            raise BadInput(f"no such file, and no {name}/*.parquet", plain, "a BEIR folder has one of them")
        return parts

    def _qrels(self) -> dict[str, Path]:
        qrels = folder(self.path) / "qrels"
        tables = [
            f"{kind}{packed}" for kind in (".tsv", ".txt", ".csv", ".json", ".jsonl") for packed in ("", *ENDINGS)
        ]
        files: dict[str, Path] = {}
        for split, names in SPLIT_FILES.items():
            paths = [qrels / f"{name}{ending}" for name in names for ending in tables]
            paths += [file for name in names for file in sorted(qrels.glob(f"{name}*.parquet"))]
            if existing := [file for file in paths if file.exists()]:
                files[split] = existing[0]
        if not files:
            raise BadInput("no train.tsv, dev.tsv or test.tsv in it", qrels, "a BEIR folder has at least one")
        return files


def _parquet(file: Path, faults: Faults) -> Iterator[tuple[object, ...]]:
    """Yield id, text, category, subcategory, file and row of each row."""
    from pyarrow import ArrowException, parquet

    number = 0
    try:
        with parquet.ParquetFile(file) as table:
            for batch in table.iter_batches(10_000):
                for entry in batch.to_pylist():
                    number += 1
                    yield from _entry(entry, file, number, faults)
    except (ArrowException, OSError) as error:
        raise BadInput(f"can't be read ({str(error).splitlines()[0][:200]})", file, "is it whole?") from None


def _texts(file: Path, faults: Faults, within: tuple[int, int] | None = None) -> Iterator[tuple[object, ...]]:
    """Yield id, text, category, subcategory, file and line of each line."""
    for number, line in lines(file, faults, within=within):
        try:
            entry = json.loads(line)
        except json.JSONDecodeError as error:
            faults.report(
                "broken line", f"not JSON ({error.msg.removesuffix(' at')} at character {error.pos + 1})", file, number
            )
        else:
            yield from _entry(entry, file, number, faults, "\\ud" in line)


def _entry(
    entry: object, file: Path, number: int, faults: Faults, escaped: bool = False
) -> Iterator[tuple[object, ...]]:
    """Yield the row of an entry, or nothing if it is broken; `escaped` if an escape may encode half a character."""
    try:
        identifier, text = _identifier(entry), _text(entry)
        category, subcategory = (_label(entry, key) for key in ("category", "subcategory"))
        if escaped:
            f"{identifier}{text}{category}{subcategory}".encode()
    except UnicodeEncodeError:
        faults.report("broken line", "half of a surrogate pair, which is no character", file, number)
    except _NotBeir as error:
        faults.report("broken line", str(error), file, number)
    else:
        yield identifier, text, category, subcategory, str(file), number


class _NotBeir(ValueError):
    """An entry that is not in the form of BEIR."""


def _identifier(entry: object) -> str:
    if not isinstance(entry, dict):
        raise _NotBeir("not a JSON object")
    name = next((name for name in ("_id", "id") if name in entry), None)
    if name is None:
        raise _NotBeir("no `_id`")
    if not isinstance(entry[name], str | int) or isinstance(entry[name], bool):
        raise _NotBeir(f"`{name}` is not a string")
    return str(entry[name])


def _text(entry: Any) -> str:
    if "text" not in entry:
        raise _NotBeir("no `text`")
    # Some exports write null for what is empty.
    title, body = entry.get("title") or "", entry["text"] or ""
    if not isinstance(title, str) or not isinstance(body, str):
        raise _NotBeir(f"`{'text' if isinstance(title, str) else 'title'}` is not a string")
    return f"{title} {body}" if title else body


def _label(entry: Any, key: str) -> str | None:
    metadata = entry.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise _NotBeir("`metadata` is not an object")
    label = metadata.get(key)
    return None if label is None or label == "" else str(label)
