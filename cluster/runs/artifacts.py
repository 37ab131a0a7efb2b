"""Makes the parts that runs need of a collection: encoded texts, candidates, ranked lists.

A part has a key, the digest of everything that it depends on. It is made at most once: it is cached on disk under its
key, and a study puts it into Ray's object store once for all runs that share it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyrite.cluster.config.agents import checkpoint_of
from pyrite.cluster.config.build import build
from pyrite.cluster.config.validate import check_run
from pyrite.cluster.config.word_vectors import reads_word_vectors, word_vectors
from pyrite.cluster.executors.object_store import fetched
from pyrite.cluster.executors.pieces import run_pieces
from pyrite.cluster.lazy import ray
from pyrite.cluster.output.cache import cache_of
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.runs.agent_file import agent_content, agent_of, read_agent
from pyrite.cluster.runs.collections import Collections
from pyrite.cluster.runs.part_options import tokenization_of
from pyrite.cluster.runs.shared_part import INPUTS, declared
from pyrite.cluster.runs.what_was_read import cut_words
from pyrite.ranking.checkpoint import from_bytes, to_bytes
from pyrite.ranking.errors import BadInput
from pyrite.ranking.packaged import licence_line, licence_of
from pyrite.ranking.precision import best_precision
from pyrite.ranking.vectors import PackagedGlove

if TYPE_CHECKING:
    from pyrite.cluster.runs.parts import Base
    from pyrite.ranking.sources import Sources


@dataclass
class Artifacts(Collections):
    """Opens the collections of configurations, makes their parts, and remembers what they share."""

    _sources: dict[str, Sources] = field(default_factory=dict)
    _stand_ins: set[str] = field(default_factory=set)

    def make(self, configs: Iterable[dict[str, Any]], only: Sequence[str] | None = None) -> None:
        """Make what the cache lacks, in parallel if possible. Does nothing here: `part` makes a part when it is needed.

        With `only`, these parts are made in addition to collections.
        """

    def share(self, configs: Iterable[dict[str, Any]]) -> dict[str, Any]:
        """Put all parts of configurations into Ray's object store, each once, and return references by key."""
        wanted = {key: (config, name) for config in configs for name, key in self.keys(config).items()}
        stored = self._opened_elsewhere(wanted)
        return stored | {key: ray.put(self.part(*wanted[key])) for key in wanted if key not in stored}

    def _opened_elsewhere(self, wanted: Mapping[str, tuple[dict[str, Any], str]]) -> dict[str, Any]:
        """Return references to those parts that other processes have put into the object store, by key."""
        return {}

    def keys(self, config: dict[str, Any]) -> dict[str, str]:
        """Return the key of each part of a configuration, by name. This is cheap: only the collection is read."""
        from pyrite.cluster.runs.part_keys import keys_of

        return keys_of(config, self)

    def best_precision(self, gpu: bool) -> str:
        """Return the precision in which transformers compute fastest where runs go (`pyrite.ranking.precision`)."""
        return best_precision(gpu)

    def provenance(self, config: dict[str, Any]) -> dict[str, str]:
        """Return what a run's result depends on in addition to its configuration (`pyrite.cluster.runs.part_keys`)."""
        from pyrite.cluster.runs.part_keys import provenance

        return provenance(config, self)

    def part(self, config: dict[str, Any], name: str) -> Any:
        """Return one part, from the cache or newly made (`pyrite.cluster.runs.parts`)."""
        if name == "agent":
            return read_agent(checkpoint_of(config) or "")
        if name == "base":
            self._note_stand_in(config)
        from pyrite.cluster.runs.parts import protect

        place = self.place(config, self.keys(config)[name])
        part = cached_part(name, place)
        if part is None:
            with self.lock(place):
                part = cached_part(name, place)  # another process may have made it meanwhile
                if part is None:
                    part = self._make(config, name)
                    Storage(str(place.parent), "cache").write(place.name, to_bytes(part))
        protect(part)
        return part

    def _note_stand_in(self, config: dict[str, Any]) -> None:
        """Note, once, that word vectors are not installed and which replace them."""
        absent = build(word_vectors(config), "vectors", trust="composed").stand_in()
        if absent and absent[1] not in self._stand_ins:
            self._stand_ins.add(absent[1])
            self.note(absent[1])

    def parts(self, config: dict[str, Any]) -> dict[str, Any]:
        """Return all parts of a configuration, by name."""
        return {name: self.part(config, name) for name in self.keys(config)}

    def check(self, configs: Iterable[dict[str, Any]]) -> None:
        """Check the options of runs, alone and together (`pyrite.cluster.config.validate.check_run`)."""
        configs, licences = list(configs), dict[str, None]()
        for config in configs:
            check_run(config, agent_of(config))
            licences |= dict.fromkeys(_licences(config))
        for line in licences:
            self.note(line)
        named = [path for config in configs if (path := config["vectors"].get("path"))]
        if named and not any(map(reads_word_vectors, configs)):
            self.note(f"vectors.path={named[0]} is not read: no part of this command reads word vectors")

    def bytes_of(self, config: dict[str, Any]) -> dict[str, int]:
        """Return the bytes of each part of a configuration, by key: on disk, and about as many in memory.

        Parts that do not exist yet are made.
        """
        sizes = {}
        for name, key in self.keys(config).items():
            place = self.place(config, key)
            if name != "agent" and not place.exists():
                self.part(config, name)
            sizes[key] = len(agent_content(checkpoint_of(config) or "")) if name == "agent" else place.stat().st_size
        return sizes

    def cut_texts(self, configs: Iterable[dict[str, Any]]) -> list[str]:
        """Return lines that count the texts of which the runs of configurations read only the beginning."""
        lines: dict[str, str] = {}  # by the key of what is read
        for config in configs:
            keys = self.keys(config)
            # Of a checkpoint's texts tokens are read, and BM25 reads whole texts: the limits of words cut neither.
            if keys["base"] not in lines and ("tokens" not in keys or reads_word_vectors(config)):
                lines[keys["base"]] = cut_words(self.part(config, "base").encoded, config["encoding"])
            tokenization = tokenization_of(config) if "tokens" in keys else None
            if tokenization and keys["tokens"] not in lines:
                lines[keys["tokens"]] = tokenization.cut(self.part(config, "tokens"))
        return [line for line in dict.fromkeys(lines.values()) if line]

    def sources(self, config: dict[str, Any], base: Base) -> Sources:
        """Return what the functions of a configuration rank with: one object for all of them."""
        from pyrite.ranking.sources import Sources

        key = self.keys(config)["base"]
        if key not in self._sources:
            cache = cache_of(config)
            self._sources[key] = Sources(self.collection(config), base.encoded, base.vectors, run_pieces, cache)
        return self._sources[key]

    def place(self, config: dict[str, Any], key: str) -> Path:
        """Return the file of a part."""
        return cache_of(config) / "parts" / f"{key}.safetensors"

    def _make(self, config: dict[str, Any], full_name: str) -> Any:
        part, name = declared(full_name)
        arguments = {parameter: INPUTS[parameter].value(self, config, name) for parameter in part.parameters}
        self.note(part.message.format(name=name))
        return part.make(**arguments)


def reading_message(config: dict[str, Any]) -> str:
    """Return what is printed while a collection is read."""
    return f"reading {config['choices']['collection']}"


def cached_part(name: str, place: Path) -> Any | None:
    """Return a part from its file. None if there is no file, or if it is truncated by a full disk or a kill."""
    from pyrite.cluster.runs import shared_parts  # noqa: F401  declares the parts
    from pyrite.cluster.runs.parts import restored

    if not place.exists():
        return None
    try:
        return restored(declared(name)[0].result, from_bytes(place.read_bytes(), str(place), place.parent))
    except BadInput:
        return None


def _licences(config: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each package whose weights a run starts from."""
    vectors = build(word_vectors(config), "vectors", trust="composed")
    if isinstance(vectors, PackagedGlove) and (line := licence_of(vectors.package)):
        yield line
    checkpoint = config["ranker"].get("checkpoint")
    if isinstance(checkpoint, str) and (line := licence_line(Path(os.path.expanduser(checkpoint)))):
        yield line


class OpenedParts:
    """The parts that runs of one process share: references to the object store by key, if there is Ray, and others."""

    def __init__(self, stored: Mapping[str, Any] | None = None, artifacts: Artifacts | None = None) -> None:
        self.stored, self.artifacts = stored, artifacts or Artifacts()
        self._opened: dict[str, Any] = {}

    def of(
        self, config: dict[str, Any], keys: Mapping[str, str], note: Callable[[str], object] = lambda line: None
    ) -> dict[str, Any]:
        """Return the parts of a run by name, given the key of each.

        A part that is not stored, because a search drew one of its options, is opened or made here; so is one that a
        lost node keeps back. A run with several workers gets references, which it hands on to them.
        """
        if self.stored is None:
            return {name: self._kept(config, name, key) for name, key in keys.items()}
        stored = {name: self.stored[key] for name, key in keys.items() if key in self.stored}
        if config["resources"]["workers"] == 1:
            wanted, stored = stored, fetched(stored)
            if late := wanted.keys() - stored.keys():
                note(f"a node is lost, and {', '.join(sorted(late))} did not come from it: opened elsewhere")
        return {name: stored[name] if name in stored else self.artifacts.part(config, name) for name in keys}

    def _kept(self, config: dict[str, Any], name: str, key: str) -> Any:
        """Return a part that this process opens once."""
        if key not in self._opened:
            self._opened[key] = self.artifacts.part(config, name)
        return self._opened[key]
