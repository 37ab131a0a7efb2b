"""Makes once what runs need of a collection: encoded texts, candidates, ranked lists.

Each part has a key, the digest of all that it depends on. A part is built at most once: it is cached on
disk under its key, and a study puts it into Ray's object store once for all the runs that share it.
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
from cluster.output.cache import cache_of
from cluster.output.file_lock import file_lock
from cluster.output.storage import Storage
from cluster.pieces.tasks import run_pieces
from cluster.runs.agent_file import agent_content, agent_of, read_agent
from cluster.runs.collections import Collections
from cluster.runs.part_keys import keys_of, provenance
from ranking.backing import at_hand, publish
from ranking.checkpoint import from_bytes, to_bytes
from ranking.collections.collection import Collection
from ranking.errors import BadInput

if TYPE_CHECKING:
    from cluster.runs.parts import Base, Part
    from pooling.systems.inputs import Rerank
    from ranking.sources import Sources

SAID = {
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
"""What is being made, for people who wait; lists say what they rank."""


@dataclass
class Artifacts:
    """Makes the parts of configurations, remembering what they share.

    Args:
        note: told what is being made, for people who wait.
        rerank: as `Collections` has it; whoever finds such judgements made needs none.
        lock: held while one is made, so that processes that want the same make it once.
    """

    note: Callable[[str], None] = lambda line: None
    rerank: Rerank | None = None
    lock: Callable[[Path], AbstractContextManager[None]] = file_lock

    def __post_init__(self) -> None:
        self._collections = Collections(self.note, self.rerank, self.lock)
        self._sources: dict[str, Sources] = {}

    def collection(self, config: dict[str, Any]) -> Collection:
        """The collection of a configuration."""
        return self._collections.of(config)

    def other(self, config: dict[str, Any], name: str) -> Collection:
        """One of the collections that are measured on besides the configuration's own."""
        return self._collections.other(config, name)

    def open_all(self, config: dict[str, Any]) -> None:
        """Open all collections of a configuration."""
        self._collections.open_all(config)

    def make(self, configs: Iterable[dict[str, Any]], only: Sequence[str] | None = None) -> None:
        """Have made at once what the cache lacks of these. Nothing to do here, where it is made when it is asked for.

        Args:
            configs: of runs.
            only: names of the parts that are wanted besides collections; None: all.
        """

    def share(self, config: dict[str, Any], keys: Mapping[str, str]) -> dict[str, Any]:
        """References to parts in Ray's object store, by their keys.

        Args:
            config: of a run.
            keys: of the parts that are wanted, by their names.
        """
        import ray

        return {key: ray.put(self.part(config, name)) for name, key in keys.items()}

    def keys(self, config: dict[str, Any]) -> dict[str, str]:
        """The name and key of each part of a configuration, cheaply: nothing but the collection is read."""
        return keys_of(config, self._collections)

    def provenance(self, config: dict[str, Any]) -> dict[str, str]:
        """All that a run's result is made of besides its configuration (`cluster.runs.part_keys`)."""
        return provenance(config, self._collections)

    def part(self, config: dict[str, Any], name: str) -> Part:
        """One part, from the cache or made now."""
        if name == "agent":
            return read_agent(checkpoint_of(config) or "")
        if name == "base" and (absent := build(config["vectors"], "vectors").stand_in()):
            self.note(absent[1])
        place = self.place(config, self.keys(config)[name])
        part = cached_part(name, place)
        if part is None:
            with self.lock(place):
                part = cached_part(name, place)  # whoever was first may have made it
                if part is None:
                    part = self._make(config, name)
                    Storage(str(place.parent), "cache").write(place.name, to_bytes(part))
                    publish(place)
        return part

    def parts(self, config: dict[str, Any]) -> dict[str, Any]:
        """All parts of a configuration, by name."""
        return {name: self.part(config, name) for name in self.keys(config)}

    def check(self, configs: Iterable[dict[str, Any]]) -> None:
        """See that options of runs are good, and go together (`cluster.config.validate.check_run`).

        Raises:
            BadInput: where they are not.
        """
        for config in configs:
            check_run(config, agent_of(config))

    def bytes_of(self, config: dict[str, Any]) -> dict[str, int]:
        """What each part of a configuration takes in memory, by its key: about what it takes in the cache.

        Parts that are not there yet are made.
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
        """What functions of a configuration rank with; remembered, since several ask for them."""
        from ranking.sources import Sources

        key = self.keys(config)["base"]
        if key not in self._sources:
            cache = cache_of(config) / "bm25"
            self._sources[key] = Sources(self.collection(config), base.encoded, base.vectors, run_pieces, cache)
        return self._sources[key]

    def place(self, config: dict[str, Any], key: str) -> Path:
        """The file of a part, by its key."""
        return cache_of(config) / "parts" / f"{key}.safetensors"

    def _make(self, config: dict[str, Any], name: str) -> Part:
        from cluster.runs.making import make_part

        self.note(said_of(config, name))
        return make_part(self, config, name)


def said_of(config: dict[str, Any], name: str | None) -> str:
    """What people are told while a part is made; None: the collection."""
    kind, _, which = (name or "").partition(":")
    return SAID.get(kind, f"ranking: {which}") if name else f"reading {config['choices']['collection']}"


def cached_part(name: str, place: Path) -> Part | None:
    """A part from its file; None where there is none, or it is cut short by a full disk or a kill of old."""
    if not at_hand(place):
        return None
    from cluster.runs.parts import restored

    try:
        return restored(name, from_bytes(place.read_bytes(), str(place), place.parent))
    except BadInput:
        return None
