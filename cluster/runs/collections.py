"""Opens the collections of runs, each of them once."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyrite.analysis.methods import MEAN
from pyrite.cluster.config.build import build
from pyrite.cluster.executors.pieces import run_pieces
from pyrite.cluster.output.cache import cache_of
from pyrite.cluster.output.lock import file_lock
from pyrite.cluster.runs.what_was_read import not_measured, notes
from pyrite.ranking.collections.beir import Beir
from pyrite.ranking.collections.cache import is_cached, open_collection
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.collections.format_of import reader_of, recognised
from pyrite.ranking.collections.reader import OF_USE, Reader
from pyrite.ranking.digest import contents, digest
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.hub import local_path
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
            collection = self._open(build(config["collection"], "collection", trust="composed"), config)
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
        key = digest([repr(reader), config["strict"]])
        if key not in self._collections:
            self.note(f"reading {name}")
            self._collections[key] = collection = self._open(reader, config)
            for line in (*notes(collection, name), *not_measured(collection, config["encoding"]["relevant_from"])):
                self.note(line)
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
        """Return whether `open_collections` would find all in the cache, if `anew` after another node made them."""
        place = cache_of(config) / "collections"
        if anew:
            with suppress(OSError):
                os.listdir(place)  # makes a network's disk look again
        readers = [
            build(config["collection"], "collection", trust="composed"),
            *collections_of(config.get("evaluate", [])).values(),
        ]
        return all(is_cached(reader, place, config["strict"]) for reader in readers)

    def _open(self, reader: Reader, config: dict[str, Any]) -> Collection:
        """Return a collection from the cache, or read it now."""
        place, strict = cache_of(config) / "collections", config["strict"]
        alone = nullcontext() if is_cached(reader, place, strict) else self.lock(place / digest(repr(reader)))
        with alone:
            collection = open_collection(reader, place, strict, run_pieces)
        for name, values in OF_USE.items():
            value = getattr(reader, name)
            refuse(value not in values, f"{name} is {value!r}", f"collection.{name}", f"choose {' or '.join(values)}")
        chosen = {"self_documents": reader.self, "duplicates": reader.duplicates}
        if tuple(chosen.values()) == tuple(values[0] for values in OF_USE.values()):
            return collection
        return collection.changed(fingerprint=digest([collection.fingerprint, chosen])[:16], **chosen)


def collections_of(places: list[str]) -> dict[str, Reader]:
    """Return the collections of `evaluate`, in any format or folders of them, by their names."""
    collections: dict[str, Reader] = {}
    for place in places:
        for reader in _readers_at(place):
            refuse(
                reader.name in collections or reader.name == MEAN,
                f"two collections are called {reader.name}",
                "evaluate",
                "rename a folder",
            )
            collections[reader.name] = reader
    return collections


def _readers_at(place: str) -> list[Reader]:
    """Return the reader of a path, one for each collection in its folders, or those of the folders in it."""
    try:
        reader = reader_of(place)
    except BadInput:
        root = local_path(place)
        inner = [folder for folder in sorted(root.glob("*")) if folder.is_dir() and recognised(folder)]
        if not inner:
            remedy = "name a BEIR folder, or another form that collection.path= reads: evaluate=[…]"
            raise BadInput("is no collection, and holds none", place, remedy) from None
        return [reader_of(folder) for folder in inner]
    if not isinstance(reader, Beir):
        return [reader]
    return [replace(reader, subset=subset) for subset in reader.subsets()] or [reader]
