"""Opens the collections of runs, each once."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster.config.build import build
from cluster.output.cache import cache_of
from cluster.output.file_lock import file_lock
from cluster.pieces.tasks import run_pieces, run_pieces_here
from cluster.runs.file_contents import content_of
from cluster.runs.measured_on import collections_of
from ranking.backing import BackedPath
from ranking.collections.cache import is_cached, open_collection
from ranking.collections.collection import Collection
from ranking.collections.reader import Reader
from ranking.digest import digest
from ranking.relabel import relabelled

if TYPE_CHECKING:
    from pooling.systems.inputs import Rerank


@dataclass
class Collections:
    """Opens the collections that configurations name, and remembers them.

    Args:
        note: told what is being read, for people who wait.
        rerank: trains the rankers that feed a pool which is judged in part (`judging.feeders`).
        lock: held while one is read, so that processes that want the same read it once.
    """

    note: Callable[[str], None] = lambda line: None
    rerank: Rerank | None = None
    lock: Callable[[Path], AbstractContextManager[None]] = file_lock
    _opened: dict[str, Collection] = field(default_factory=dict)

    def of(self, config: dict[str, Any]) -> Collection:
        """The collection of a configuration."""
        mended, partial = config.get("relabel"), _partial(config)
        key = self.key(config)
        if key not in self._opened:
            name = config["choices"]["collection"]
            self.note(f"reading {name}")
            reader = build(config["collection"], "collection")
            collection = self._open(reader, config)
            if collection.skipped:
                counts = ", ".join(f"{count} × {kind}" for kind, count in collection.skipped.items())
                self.note(f"skipped in {name}: {counts}")
            for what, count in collection.facts.items():
                if what.startswith("queries "):
                    self.note(f"{what} in {name}: {count}")
            if partial:
                from cluster.runs.partial_judgements import partially_judged

                with self.lock(cache_of(config) / "judging" / key):
                    collection = partially_judged(collection, partial, cache_of(config), self.note, self.rerank)
            self._opened[key] = relabelled(collection, mended) if mended else collection
        return self._opened[key]

    def other(self, config: dict[str, Any], name: str) -> Collection:
        """One of the collections that are measured on besides the run's own."""
        reader = collections_of(config["evaluate"])[name]
        key = digest([str(reader.path), config["strict"]])
        if key not in self._opened:
            self.note(f"reading {name}")
            self._opened[key] = self._open(reader, config)
        return self._opened[key]

    def open_all(self, config: dict[str, Any]) -> None:
        """Open the collection of a configuration, and those that it is measured on besides."""
        self.of(config)
        for name in collections_of(config.get("evaluate", [])):
            self.other(config, name)

    def key(self, config: dict[str, Any]) -> str:
        """Names a configuration's collection, as far as its options do."""
        return digest([config["collection"], config["strict"], content_of(config.get("relabel")), _partial(config)])

    def are_cached(self, config: dict[str, Any], anew: bool = False) -> bool:
        """Whether `open_all` would read none.

        Args:
            config: of a run.
            anew: where another machine may just have written them: a network's disk is made to look again.
        """
        place = cache_of(config) / "collections"
        if anew:
            with suppress(OSError):
                os.listdir(place)
        elif self.key(config) not in self._opened and _partial(config):
            return False
        readers = [build(config["collection"], "collection"), *collections_of(config.get("evaluate", [])).values()]
        return all(is_cached(reader, place, config["strict"]) for reader in readers)

    def _open(self, reader: Reader, config: dict[str, Any]) -> Collection:
        """A collection from the cache, or read now: where that is a URI by this machine, which publishes it."""
        place, strict = cache_of(config) / "collections", config["strict"]
        run = run_pieces_here if isinstance(place, BackedPath) else run_pieces
        alone = nullcontext() if is_cached(reader, place, strict) else self.lock(place / digest(repr(reader)))
        with alone:
            return open_collection(reader, place, strict, run)


def _partial(config: Mapping[str, Any]) -> dict[str, Any] | None:
    """How the collection is judged in part, if it is; not every verb has such options."""
    judging: dict[str, Any] = config.get("judging") or {}
    return judging if judging.get("order") else None
