"""Reads BEIR folders: documents and queries as JSON lines, judgements as tab-separated files, one a split.

Thakur et al. 2021, *BEIR: A Heterogeneous Benchmark for Zero-shot Evaluation of Information Retrieval Models*.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from ranking.collections.faults import Faults
from ranking.collections.lines import lines, tables
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
from ranking.collections.splits import DEV, TEST, TRAIN
from ranking.errors import BadInput

_QRELS = {"query": pl.String(), "document": pl.String(), "grade": pl.Int32()}


@dataclass
class Beir(Reader):
    """A BEIR folder.

    It holds `corpus.jsonl` (`_id`, `title`, `text`), `queries.jsonl` (`_id`, `text`) and `qrels/train.tsv`,
    `qrels/dev.tsv`, `qrels/test.tsv` (at least one; query, document and grade under a header). Any of them may be
    a .gz. A query belongs to the split whose file judges it. `metadata.category` and `metadata.subcategory` of
    documents and queries are kept where they are.

    Args:
        path: the folder.
    """

    path: str | Path

    @property
    def name(self) -> str:
        return folder(self.path).resolve().name

    def sources(self) -> dict[str, str]:
        return stamps([self._file("corpus.jsonl"), self._file("queries.jsonl"), *self._qrels().values()])

    def read_documents(self, faults: Faults) -> Iterator[pl.DataFrame]:
        return frames(_texts(self._file("corpus.jsonl"), faults), DOCUMENTS)

    def portions(self, size: int) -> Sequence[Portion]:
        return spans_of(self._file("corpus.jsonl"), size)

    def read_portion(self, portion: Portion, faults: Faults) -> Iterator[pl.DataFrame]:
        assert isinstance(portion, Span)
        return frames(_texts(self._file("corpus.jsonl"), faults, (portion.start, portion.stop)), DOCUMENTS)

    def read_queries(self, faults: Faults) -> pl.DataFrame:
        return together(frames(_texts(self._file("queries.jsonl"), faults), QUERIES), QUERIES)

    def read_judgements(self, faults: Faults) -> pl.DataFrame:
        parts = [
            rows.with_columns(pl.lit(split).alias("split"), pl.lit(str(file)).alias("file"))
            for split, file in self._qrels().items()
            for rows in tables(file, _QRELS, faults, separator="\t", header=True)
        ]
        return together(parts, JUDGEMENTS)

    def _file(self, name: str) -> Path:
        plain = folder(self.path) / name
        packed = plain.with_name(f"{name}.gz")
        if not plain.exists() and not packed.exists():
            raise BadInput(f"no such file, and no {packed.name}", plain, "a BEIR folder has one of them")
        return plain if plain.exists() else packed

    def _qrels(self) -> dict[str, Path]:
        qrels = folder(self.path) / "qrels"
        found = {
            split: file
            for split in (TRAIN, DEV, TEST)
            for file in (qrels / f"{split}.tsv.gz", qrels / f"{split}.tsv")
            if file.exists()
        }
        if not found:
            raise BadInput("no train.tsv, dev.tsv or test.tsv in it", qrels, "a BEIR folder has at least one")
        return found


def _texts(file: Path, faults: Faults, within: tuple[int, int] | None = None) -> Iterator[tuple[object, ...]]:
    """id, text, category, subcategory, file and line of each line."""
    for number, line in lines(file, faults, within=within):
        try:
            entry = json.loads(line)
            identifier, text = _identifier(entry), _text(entry)
            category, subcategory = (_label(entry, key) for key in ("category", "subcategory"))
            if "\\ud" in line:  # an escape that may spell half a character
                f"{identifier}{text}{category}{subcategory}".encode()
        except json.JSONDecodeError as error:
            faults.report("broken line", f"not JSON ({error.msg} at character {error.pos + 1})", file, number)
        except UnicodeEncodeError:
            faults.report("broken line", "half of a surrogate pair, which is no character", file, number)
        except _NotBeir as error:
            faults.report("broken line", str(error), file, number)
        else:
            yield identifier, text, category, subcategory, str(file), number


class _NotBeir(ValueError):
    """JSON, but not of the form that BEIR asks for."""


def _identifier(entry: object) -> str:
    if not isinstance(entry, dict):
        raise _NotBeir("not a JSON object")
    if "_id" not in entry:
        raise _NotBeir("no `_id`")
    if not isinstance(entry["_id"], str | int) or isinstance(entry["_id"], bool):
        raise _NotBeir("`_id` is not a string")
    return str(entry["_id"])


def _text(entry: dict[str, object]) -> str:
    if "text" not in entry:
        raise _NotBeir("no `text`")
    # Some exports write null for what is empty.
    title, body = entry.get("title") or "", entry["text"] or ""
    if not isinstance(title, str) or not isinstance(body, str):
        raise _NotBeir(f"`{'text' if isinstance(title, str) else 'title'}` is not a string")
    return f"{title} {body}" if title else body


def _label(entry: dict[str, object], key: str) -> str | None:
    metadata = entry.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise _NotBeir("`metadata` is not an object")
    label = metadata.get(key)
    return None if label is None or label == "" else str(label)
