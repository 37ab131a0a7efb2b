"""Opens the collections of runs, each of them once."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pyrite.cluster.config.build import build
from pyrite.cluster.executors.pieces import run_pieces
from pyrite.cluster.output.cache import cache_of
from pyrite.cluster.output.lock import file_lock
from pyrite.cluster.output.provenance import contents
from pyrite.cluster.runs.what_was_read import notes
from pyrite.ranking.backing import BackedPath
from pyrite.ranking.collections.beir import Beir
from pyrite.ranking.collections.cache import is_cached, open_collection
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.collections.reader import OF_USE, Reader
from pyrite.ranking.digest import digest
from pyrite.ranking.errors import BadInput
from pyrite.ranking.relabel import relabelled


@dataclass
class Collections:
    """The collections that configurations name. Each is opened once.

    Args:
        note: receives a message per collection or part that is made.
        lock: is held while a collection or part is made, so that several processes make it once.
    """

    note: Callable[[str], None] = lambda line: None
    lock: Callable[[Path], AbstractContextManager[None]] = file_lock
    _collections: dict[str, Collection] = field(default_factory=dict)

    def collection(self, config: dict[str, Any]) -> Collection:
        """Return the collection of a configuration."""
        key = self.collection_key(config)
        if key not in self._collections:
            name = config["choices"]["collection"]
            self.note(f"reading {name}")
            collection = self._open(build(config["collection"], "collection"), config)
            for line in notes(collection, name):
                self.note(line)
            if relabel := config.get("relabel"):
                collection = relabelled(collection, relabel, config["strict"])
                self.note(f"judgements corrected in {name}: {collection.facts['judgements corrected']}")
            self._collections[key] = collection
        return self._collections[key]

    def other_collection(self, config: dict[str, Any], name: str) -> Collection:
        """Return one of the other collections that rankers are evaluated on."""
        reader = collections_of(config["evaluate"])[name]
        key = digest([str(reader.path), config["strict"]])
        if key not in self._collections:
            self.note(f"reading {name}")
            self._collections[key] = self._open(reader, config)
        return self._collections[key]

    def open_collections(self, config: dict[str, Any]) -> None:
        """Open the collection of a configuration, and the others that its ranker is evaluated on."""
        self.collection(config)
        for name in collections_of(config.get("evaluate", [])):
            self.other_collection(config, name)

    def collection_key(self, config: dict[str, Any]) -> str:
        """Return a digest of the options of a configuration's collection."""
        relabel = contents(filter(None, [config.get("relabel")]))
        return digest([config["collection"], config["strict"], relabel])

    def collections_cached(self, config: dict[str, Any], anew: bool = False) -> bool:
        """Return whether `open_collections` would find all in the cache, if `anew` after another node has made them."""
        place = cache_of(config) / "collections"
        if anew:
            with suppress(OSError):
                os.listdir(place)  # makes a network's disk look again
        readers = [build(config["collection"], "collection"), *collections_of(config.get("evaluate", [])).values()]
        return all(is_cached(reader, place, config["strict"]) for reader in readers)

    def _open(self, reader: Reader, config: dict[str, Any]) -> Collection:
        """Return a collection from the cache, or read it now. If the cache is a URI, this node reads and uploads it."""
        place, strict = cache_of(config) / "collections", config["strict"]
        run = partial(run_pieces, here=isinstance(place, BackedPath))
        alone = nullcontext() if is_cached(reader, place, strict) else self.lock(place / digest(repr(reader)))
        with alone:
            collection = open_collection(reader, place, strict, run)
        for name, values in OF_USE.items():
            if (value := getattr(reader, name)) not in values:
                raise BadInput(f"{name} is {value!r}", f"collection.{name}", f"choose {' or '.join(values)}")
        chosen = {"self_documents": reader.self, "duplicates": reader.duplicates}
        if tuple(chosen.values()) == tuple(values[0] for values in OF_USE.values()):
            return collection
        return collection.changed(fingerprint=digest([collection.fingerprint, chosen])[:16], **chosen)


MEAN = "mean"
"""Name of the row with the means over collections."""


def collections_of(places: list[str]) -> dict[str, Beir]:
    """Return the collections of `evaluate`, BEIR folders or folders of BEIR folders, by their names."""
    collections: dict[str, Beir] = {}
    for place in places:
        root = Path(place).expanduser()
        folders = [root, *sorted(path for path in root.glob("*") if path.is_dir())]
        beir = [path for path in folders if any((path / f"corpus.jsonl{end}").is_file() for end in ("", ".gz"))]
        if not beir:
            raise BadInput("is no BEIR folder, and holds none", place, "name folders with a corpus.jsonl: evaluate=[…]")
        for folder in beir[:1] if beir[0] == root else beir:
            name = folder.resolve().name
            if name in collections or name == MEAN:
                raise BadInput(f"two collections are called {name}", "evaluate", "rename a folder")
            collections[name] = Beir(folder)
    return collections
