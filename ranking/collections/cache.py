"""Opens a collection: reads and checks it once, and maps its Arrow files afterwards."""

from __future__ import annotations

import fcntl
import inspect
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from hashlib import blake2b
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa

from pyrite.ranking.collections.arrow_files import mapped
from pyrite.ranking.collections.build import ABOUT, GIVEN_FILE, build
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.collections.ids import IdTable
from pyrite.ranking.collections.pieces import Run, in_turn, mapped_pieces
from pyrite.ranking.collections.reader import OF_USE, Reader
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.hub import default_cache
from pyrite.ranking.reading import Reading
from pyrite.ranking.whole_file import FULL

_LAYOUT = 4  # counted up when the same files would be checked differently, or the cached ones change their form
_UNFINISHED = ".unfinished-"
_DAY = 86_400  # seconds
UNREAD = {"path", "tokenizer", "language", "subwords"}
"""Options that do not change what is read: the path is one of the sources."""


def cache_folder(place: str | Path | None) -> Path:
    """Return the cache's folder by `cache=` or PYRITE_CACHE; without either, the user's default.

    Raises:
        BadInput: if it is a URI.
    """
    remedy = "give a folder on a disk that all machines share, or leave it out: results still go to out=URI"
    refuse(place and "://" in str(place), f"{place} is a URI, which a cache no longer takes", "cache", remedy)
    return Path(os.path.expanduser(place)) if place else default_cache()


def open_collection(reader: Reader, cache: str | Path, strict: bool = True, run: Run = in_turn) -> Collection:
    """Read a collection, or take it from the cache if the same was read before.

    The documents pass through in chunks, so memory is bounded by a chunk and eight bytes per document. A collection is
    written into a folder of another name, which is renamed when it is complete: neither a killed process nor two that
    read the same at once leave a partial one.

    Args:
        reader: the format and the location of its files.
        cache: the folder of cached collections, created if needed.
        strict: whether any fault in the files is an error; otherwise such lines are skipped and counted in
            `Collection.skipped`. A file that is missing or truncated is always an error.
        run: runs the tasks that write a large collection, one per piece; in turn in this process by default.

    Raises:
        BadInput: for the first fault, with its file and line.
    """
    entry = _entry(reader, cache)
    collection = _load(entry, strict)
    if collection is not None:
        return _read_as(collection, reader.reading)
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        _sweep(entry.parent)
        unfinished = _beside(entry)
    except OSError as error:
        raise BadInput(f"cannot be written ({error.strerror})", cache, "choose another cache folder") from None
    try:
        with _held(unfinished):
            build(reader, unfinished, reader.faults(strict), run)
            _install(unfinished, entry)
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise BadInput(FULL[error.errno], cache, "make room, or choose another cache folder") from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    collection = _load(entry, strict)
    if collection is None:
        raise RuntimeError(f"{entry} was written and cannot be read back")
    return _read_as(collection, reader.reading)


def _read_as(collection: Collection, reading: Reading) -> Collection:
    """Return a collection whose texts are cut into words in a way; another way makes everything counted differ."""
    if not reading.key:
        return collection
    fingerprint = blake2b(f"{collection.fingerprint} {reading.key}".encode(), digest_size=8).hexdigest()
    return collection.changed(reading=reading, fingerprint=fingerprint)


def is_cached(reader: Reader, cache: str | Path, strict: bool = True) -> bool:
    """Return whether `open_collection` would find the collection in the cache."""
    try:
        return _load(_entry(reader, cache), strict) is not None
    except BadInput:  # its files are not here
        return False


def _entry(reader: Reader, cache: str | Path) -> Path:
    """Return the folder of a collection, by the state of its files."""
    key = _key(reader)  # first: it refuses a name that is no text
    return Path(os.path.expanduser(cache)) / f"{_plain(reader.name)}-{key}"


def _load(entry: Path, strict: bool) -> Collection | None:
    """Return the collection in a cache folder; None if it is missing, damaged, or has skipped faults if `strict`."""
    try:
        about = json.loads((entry / ABOUT).read_text(encoding="utf-8"))
        if strict and about["skipped"]:
            return None
        files = tuple(entry / Path(name).name for name in about["documents"])
        documents = mapped_pieces(files)
        queries, judgements = (mapped(entry / f"{part}.arrow") for part in ("queries", "judgements"))
        id_table = IdTable(tuple(entry / Path(name).name for name in about["ids"]))
        if id_table.files:
            _ = id_table.table  # whether it is whole
        given: dict[str, Any] = {"given": mapped(entry / GIVEN_FILE)} if about["given"] else {}
    except (OSError, ValueError, KeyError, pa.ArrowException):
        return None
    return Collection(
        about["name"], about["fingerprint"], documents, queries, judgements, about["skipped"], about["facts"],
        **given, files=files, rows=tuple(about["documents"].values()), ids=id_table if id_table.files else None,
        empty=tuple(about["empty"]), source=about["source"],
    )  # fmt: skip


def _install(folder: Path, entry: Path) -> None:
    """Rename a finished folder, unless another process already has."""
    about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    for _ in range(100):
        try:
            os.rename(folder, entry)
            return
        except OSError:
            existing = _load(entry, strict=not about["skipped"])
            if existing is not None:
                return
            aside = _beside(entry)
            with suppress(FileNotFoundError):
                os.replace(entry, aside)
            shutil.rmtree(aside, ignore_errors=True)
    raise RuntimeError(f"{entry} cannot be replaced")


def _beside(entry: Path) -> Path:
    """Make a new folder on the same disk, so that it can be renamed."""
    folder = entry.with_name(f"{_UNFINISHED}{uuid4().hex}")
    folder.mkdir()
    return folder


def _sweep(cache: Path) -> None:
    """Remove what killed processes left behind, a day later."""
    for folder in cache.glob(f"{_UNFINISHED}*"):
        with suppress(FileNotFoundError):  # deleted in the meantime
            if time.time() - folder.stat().st_mtime > _DAY and not _is_held(folder):
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Lock a folder that is being filled, until the process ends: clocks jump, so its age is unreliable."""
    file = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some shared file systems have no locks
            fcntl.flock(file, fcntl.LOCK_SH)
        yield
    finally:
        os.close(file)


def _is_held(folder: Path) -> bool:
    file = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(file)
    return False


def _key(reader: Reader) -> str:
    """Return the key of a cached collection: its sources and options, known without reading it."""
    name, sources = reader.name, reader.sources()
    if not isinstance(sources, Mapping):
        remedy = "return a mapping of each source to its state, as a file's path to its size and time"
        raise BadInput(f"sources of the reader gave {type(sources).__name__}", "collection", remedy)
    if not isinstance(name, str) or not name:
        raise BadInput(f"name of the reader is {name!r}", "collection", "return the collection's name, a text")
    # The path is one of the sources, in a form that does not depend on the working folder.
    unread, declared = {*UNREAD, *OF_USE}, [field.name for field in fields(reader)]
    if others := [name for name in inspect.signature(type(reader)).parameters if name not in declared]:
        what = f"{type(reader).__name__} takes {others[0]}, which is no field, so that the cache would not notice it"
        raise BadInput(what, "collection", f"write @dataclass over the class, and the field {others[0]} in it")
    options = {field.name: getattr(reader, field.name) for field in fields(reader) if field.name not in unread}
    content = {
        "reader": f"{type(reader).__module__}.{type(reader).__qualname__}",
        "version": [_LAYOUT, reader.version],
        "options": options,
        "sources": dict(sources),
    }
    return _digest(content)


def _digest(content: Mapping[str, object]) -> str:
    return blake2b(json.dumps(content, sort_keys=True, default=_jsonable).encode(), digest_size=8).hexdigest()


def _jsonable(option: object) -> object:
    """Convert options from Hydra, whose lists and mappings are not Python's."""
    if isinstance(option, Mapping):
        return dict(option)
    if isinstance(option, Sequence) and not isinstance(option, str):
        return list(option)
    return str(option)


def _plain(name: str) -> str:
    return re.sub(r"[^\w.-]+", "_", name).strip("._") or "collection"
