"""Makes the parts that runs need of a collection: encoded texts, candidates, ranked lists.

A part has a key, the digest of everything that it depends on. It is made at most once: it is cached on disk under its
key, and a study puts it into Ray's object store once for all runs that share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster.config.agents import checkpoint_of
from cluster.config.build import build
from cluster.config.validate import check_run
from cluster.executors.pieces import run_pieces
from cluster.output.cache import cache_of
from cluster.output.lock import file_lock
from cluster.output.storage import Storage
from cluster.runs.agent_file import agent_content, agent_of, read_agent
from cluster.runs.collections import Collections
from cluster.runs.part_keys import keys_of, provenance
from ranking.backing import at_hand, publish
from ranking.checkpoint import from_bytes, to_bytes
from ranking.collections.collection import Collection
from ranking.errors import BadInput

if TYPE_CHECKING:
    from cluster.runs.parts import Base
    from pooling.systems.inputs import Rerank
    from ranking.sources import Sources

MESSAGES = {
    "base": "encoding texts",
    "tokens": "tokenizing texts",
    "validation": "ranking for validation",
    "objective": "preparing the objective",
    "teacher": "asking the teacher",
    "compressed": "compressing texts for the agent",
    "similarity": "measuring the candidates for the agent",
    "candidates": "describing the candidates for the agent",
    "evaluate": "reading a collection to be measured on",
}
"""What is printed while a part is made. The message of a list names what it ranks."""


@dataclass
class Artifacts:
    """Makes the parts of configurations, and remembers what they share.

    Args:
        note: receives a message per part that is made.
        rerank: see `cluster.runs.collections.Collections`; not needed if such judgements exist already.
        lock: is held while a part is made, so that processes that need the same part make it once.
    """

    note: Callable[[str], None] = lambda line: None
    rerank: Rerank | None = None
    lock: Callable[[Path], AbstractContextManager[None]] = file_lock

    def __post_init__(self) -> None:
        self.collections = Collections(self.note, self.rerank, self.lock)
        self._sources: dict[str, Sources] = {}

    def collection(self, config: dict[str, Any]) -> Collection:
        """Return the collection of a configuration."""
        return self.collections.of(config)

    def make(self, configs: Iterable[dict[str, Any]], only: Sequence[str] | None = None) -> None:
        """Make what the cache lacks, in parallel if possible. Does nothing here: `part` makes a part when it is needed.

        Args:
            only: names of the parts to make in addition to collections; None makes all.
        """

    def share(self, config: dict[str, Any], keys: Mapping[str, str]) -> dict[str, Any]:
        """Put parts into Ray's object store, and return references by key."""
        import ray

        return {key: ray.put(self.part(config, name)) for name, key in keys.items()}

    def share_all(self, configs: Iterable[dict[str, Any]]) -> dict[str, Any]:
        """Put all parts of configurations into Ray's object store, each once, and return references by key."""
        stored: dict[str, Any] = {}
        for config in configs:
            stored |= self.share(config, {name: key for name, key in self.keys(config).items() if key not in stored})
        return stored

    def keys(self, config: dict[str, Any]) -> dict[str, str]:
        """Return the key of each part of a configuration, by name. This is cheap: only the collection is read."""
        return keys_of(config, self.collections)

    def provenance(self, config: dict[str, Any]) -> dict[str, str]:
        """Return what a run's result depends on in addition to its configuration (`cluster.runs.part_keys`)."""
        return provenance(config, self.collections)

    def part(self, config: dict[str, Any], name: str) -> Any:
        """Return one part, from the cache or newly made (`cluster.runs.parts`)."""
        if name == "agent":
            return read_agent(checkpoint_of(config) or "")
        if name == "base" and (absent := build(config["vectors"], "vectors").stand_in()):
            self.note(absent[1])
        place = self.place(config, self.keys(config)[name])
        part = cached_part(name, place)
        if part is None:
            with self.lock(place):
                part = cached_part(name, place)  # another process may have made it meanwhile
                if part is None:
                    part = self._make(config, name)
                    Storage(str(place.parent), "cache").write(place.name, to_bytes(part))
                    publish(place)
        from cluster.runs.parts import protect

        protect(part)
        return part

    def parts(self, config: dict[str, Any]) -> dict[str, Any]:
        """Return all parts of a configuration, by name."""
        return {name: self.part(config, name) for name in self.keys(config)}

    def check(self, configs: Iterable[dict[str, Any]]) -> None:
        """Check the options of runs, alone and together (`cluster.config.validate.check_run`)."""
        for config in configs:
            check_run(config, agent_of(config))

    def bytes_of(self, config: dict[str, Any]) -> dict[str, int]:
        """Return the bytes of each part of a configuration, by key. It takes about as much memory as disk.

        Parts that do not exist yet are made.
        """
        sizes = {}
        for name, key in self.keys(config).items():
            if name == "agent":
                sizes[key] = len(agent_content(checkpoint_of(config) or ""))
                continue
            place = self.place(config, key)
            if not at_hand(place):
                self.part(config, name)
            sizes[key] = place.stat().st_size
        return sizes

    def sources(self, config: dict[str, Any], base: Base) -> Sources:
        """Return what the functions of a configuration rank with. It is remembered, because several need it."""
        from ranking.sources import Sources

        key = self.keys(config)["base"]
        if key not in self._sources:
            cache = cache_of(config) / "bm25"
            self._sources[key] = Sources(self.collection(config), base.encoded, base.vectors, run_pieces, cache)
        return self._sources[key]

    def place(self, config: dict[str, Any], key: str) -> Path:
        """Return the file of a part."""
        return cache_of(config) / "parts" / f"{key}.safetensors"

    def _make(self, config: dict[str, Any], name: str) -> Any:
        from cluster.runs.making import make_part

        self.note(message_of(config, name))
        return make_part(self, config, name)


def message_of(config: dict[str, Any], name: str | None) -> str:
    """Return what is printed while a part is made, or the collection if the name is None."""
    kind, _, which = (name or "").partition(":")
    return MESSAGES.get(kind, f"ranking: {which}") if name else f"reading {config['choices']['collection']}"


def cached_part(name: str, place: Path) -> Any | None:
    """Return a part from its file. None if there is no file, or if it is truncated by a full disk or a kill."""
    if not at_hand(place):
        return None
    from cluster.runs.parts import restored

    try:
        return restored(name, from_bytes(place.read_bytes(), str(place), place.parent))
    except BadInput:
        return None


class OpenedParts:
    """The parts that runs of one process share.

    Args:
        stored: references to parts in the object store, by key; None without Ray.
        artifacts: opens or makes all other parts; None builds it where they are opened.
    """

    def __init__(self, stored: Mapping[str, Any] | None = None, artifacts: Artifacts | None = None) -> None:
        self.stored, self._artifacts = stored, artifacts
        self._opened: dict[str, Any] = {}

    @property
    def artifacts(self) -> Artifacts:
        """Opens or makes the parts that are not stored."""
        if self._artifacts is None:
            self._artifacts = Artifacts()
        return self._artifacts

    def of(self, config: dict[str, Any], keys: Mapping[str, str]) -> dict[str, Any]:
        """Return the parts of a run by name.

        A part that is not stored, because a search drew one of its options, is opened or made here. A run with
        several workers gets references, which it hands on to them.

        Args:
            keys: the key of each part, by name.
        """
        if self.stored is None:
            for name, key in keys.items():
                if key not in self._opened:
                    self._opened[key] = self.artifacts.part(config, name)
            return {name: self._opened[key] for name, key in keys.items()}
        import ray

        stored, alone = self.stored, config["resources"]["workers"] == 1
        return {
            name: (ray.get(stored[key]) if alone else stored[key])
            if key in stored
            else self.artifacts.part(config, name)
            for name, key in keys.items()
        }
