"""Collections are read once, checked, and from then on mapped from Arrow files."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from hashlib import blake2b
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import polars as pl
import pyarrow as pa

from ranking.collections import checks, splits
from ranking.collections.arrow_files import mapped, write
from ranking.collections.collection import Collection
from ranking.collections.faults import Faults
from ranking.collections.reader import Reader
from ranking.errors import BadInput

_LAYOUT = 1  # counted up when the files in a cache folder change their form
_CHUNK = 50_000  # rows
_STORED: Mapping[str, Mapping[str, pl.DataType]] = {
    "documents": {name: pl.String() for name in ("id", "text", "category", "subcategory")},
    "queries": {name: pl.String() for name in ("id", "text", "split", "category", "subcategory")},
    "judgements": {"query": pl.String(), "document": pl.String(), "grade": pl.Int32()},
}
_UNFINISHED = ".unfinished-"
_DAY = 86_400  # seconds


def open_collection(reader: Reader, cache: str | Path, strict: bool = True) -> Collection:
    """Read a collection, or take it from the cache if the same was read before.

    The documents pass through in chunks, so memory is bounded by a chunk and eight bytes a document. A collection is
    written into a folder of another name, which is renamed when it is whole: neither a killed process nor two that
    read the same at once leave anything half-read.

    Args:
        reader: the format and where its files are.
        cache: the folder that holds the cached collections; made if it is not there.
        strict: any fault in the files is an error; otherwise such lines are skipped and counted in
            `Collection.skipped`. A file that is missing or truncated is always an error.

    Raises:
        BadInput: the first fault, with its file and line.
    """
    entry = Path(cache).expanduser() / f"{_plain(reader.name)}-{_key(reader)}"
    collection = _load(entry, strict)
    if collection is not None:
        return collection
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        _sweep(entry.parent)
        unfinished = Path(mkdtemp(prefix=_UNFINISHED, dir=entry.parent))
    except OSError as error:
        raise BadInput(f"cannot be written ({error.strerror})", cache, "choose another cache folder") from None
    try:
        _build(reader, unfinished, Faults(strict))
        _install(unfinished, entry)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    collection = _load(entry, strict)
    if collection is None:
        raise RuntimeError(f"{entry} was written and cannot be read back")
    return collection


def _build(reader: Reader, folder: Path, faults: Faults) -> None:
    # The small files first: most faults are found before the documents, which take long.
    queries = checks.distinct(checks.with_text(reader.read_queries(faults), "query", faults), faults)
    judgements = reader.read_judgements(faults)
    documents = _write_documents(reader, folder, faults)
    judgements = checks.sound(judgements, queries, documents, faults)
    if judgements.is_empty():
        raise BadInput("not one judgement of a known document for a known query", reader.name)
    judged = judgements.select(pl.col("query"), "split").unique("query")
    facts = dict(reader.facts())
    if unjudged := len(queries) - len(judged):
        facts["queries without judgements"] = f"{unjudged:,} left out"
    queries = queries.join(judged, left_on="id", right_on="query", how="inner", maintain_order="left")
    write(folder / "queries.arrow", _STORED["queries"], [splits.usable(queries)])
    write(folder / "judgements.arrow", _STORED["judgements"], [judgements])
    about = {
        "name": reader.name,
        "fingerprint": _fingerprint([mapped(folder / f"{part}.arrow") for part in _STORED], facts),
        "skipped": faults.skipped,
        "facts": facts,
    }
    (folder / "collection.json").write_text(json.dumps(about, ensure_ascii=False, indent=1), encoding="utf-8")


def _write_documents(reader: Reader, folder: Path, faults: Faults) -> pl.DataFrame:
    path = folder / "documents.arrow"
    hashes = [np.empty(0, np.uint64)]

    def chunks() -> Iterator[pl.DataFrame]:
        for chunk in reader.read_documents(faults):
            chunk = checks.with_text(chunk, "document", faults)
            hashes.append(chunk["id"].hash().to_numpy())
            yield chunk

    write(path, _STORED["documents"], chunks())
    documents = mapped(path)
    if documents.is_empty():
        raise BadInput("not one document", reader.name)
    again = _repeated(documents, np.concatenate(hashes))
    if len(again):
        file, line = _place(reader, int(again[0])) if faults.strict else ("", None)
        what = f"another document is called {documents['id'][int(again[0])]!r}"
        faults.report("duplicate id", what, file, line, times=len(again))
        numbered = documents.with_row_index("row")
        kept = (part.filter(~pl.col("row").is_in(again.implode())) for part in numbered.iter_slices(_CHUNK))
        write(folder / "distinct.arrow", _STORED["documents"], kept)
        os.replace(folder / "distinct.arrow", path)
        documents = mapped(path)
    return documents


def _repeated(documents: pl.DataFrame, hashes: np.ndarray) -> pl.Series:
    """Row numbers of the documents whose id an earlier document has.

    Equal ids have equal hashes: only where hashes repeat, which is hardly ever, are the ids themselves compared.
    """
    hashes.sort()
    suspects = pl.Series(np.unique(hashes[1:][hashes[1:] == hashes[:-1]]), dtype=pl.UInt64)
    if suspects.is_empty():
        return pl.Series(dtype=pl.UInt32)
    rows = documents.select(pl.col("id")).with_row_index("row").filter(documents["id"].hash().is_in(suspects.implode()))
    return rows.filter(~pl.col("id").is_first_distinct())["row"]


def _place(reader: Reader, row: int) -> tuple[str, int | None]:
    """The file and line of a document, by reading again up to it: places are not kept, faults are rare."""
    for chunk in reader.read_documents(Faults(strict=False)):
        if row < len(chunk):
            return chunk["file"][row], chunk["line"][row]
        row -= len(chunk)
    raise RuntimeError("the documents changed while they were read")


def _load(entry: Path, strict: bool) -> Collection | None:
    """The collection in a cache folder; None if it is not there, damaged, or skipped faults where none may be."""
    try:
        about = json.loads((entry / "collection.json").read_text(encoding="utf-8"))
        documents, queries, judgements = (mapped(entry / f"{part}.arrow") for part in _STORED)
    except (OSError, ValueError, pa.ArrowException):
        return None
    if strict and about["skipped"]:
        return None
    frames = documents, queries, judgements
    return Collection(about["name"], about["fingerprint"], *frames, about["skipped"], about["facts"])


def _install(folder: Path, entry: Path) -> None:
    """Put a finished folder in its place, unless another process was faster with the same."""
    about = json.loads((folder / "collection.json").read_text(encoding="utf-8"))
    for _ in range(100):
        try:
            os.rename(folder, entry)
            return
        except OSError:
            there = _load(entry, strict=not about["skipped"])
            if there is not None:
                return
            aside = Path(mkdtemp(prefix=_UNFINISHED, dir=entry.parent))
            with suppress(FileNotFoundError):
                os.replace(entry, aside)
            shutil.rmtree(aside, ignore_errors=True)
    raise RuntimeError(f"{entry} cannot be replaced")


def _sweep(cache: Path) -> None:
    """Remove what processes that were killed left behind, a day later."""
    for folder in cache.glob(f"{_UNFINISHED}*"):
        if time.time() - folder.stat().st_mtime > _DAY:
            shutil.rmtree(folder, ignore_errors=True)


def _key(reader: Reader) -> str:
    """A cached collection is found by what would be read and how, without reading it."""
    # The path is among the sources, in a form that does not depend on the working folder.
    options = {field.name: getattr(reader, field.name) for field in fields(reader) if field.name != "path"}
    asked = {
        "reader": f"{type(reader).__module__}.{type(reader).__qualname__}",
        "version": [_LAYOUT, reader.version],
        "options": options,
        "sources": dict(reader.sources()),
    }
    return blake2b(json.dumps(asked, sort_keys=True, default=_jsonable).encode(), digest_size=8).hexdigest()


def _fingerprint(tables: Sequence[pl.DataFrame], facts: Mapping[str, str]) -> str:
    digest = blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=8)
    for table in tables:
        digest.update(f"\n{table.columns}\n".encode())
        for part in table.iter_slices(_CHUNK):
            digest.update(part.write_csv(include_header=False).encode())
    return digest.hexdigest()


def _jsonable(option: object) -> object:
    """Options come from Hydra too, whose lists and mappings are not Python's own."""
    if isinstance(option, Mapping):
        return dict(option)
    if isinstance(option, Sequence) and not isinstance(option, str):
        return list(option)
    return str(option)


def _plain(name: str) -> str:
    return re.sub(r"[^\w.-]+", "_", name).strip("._") or "collection"
