"""Makes once what runs need of a collection: encoded texts, candidates, ranked lists.

Each part has a key, the digest of all that it depends on. A part is built at most once: it is cached on
disk under its key, and a study puts it into Ray's object store once for all the runs that share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cluster.config.agents import checkpoint_of
from cluster.config.build import build
from cluster.output.cache import cache_of
from cluster.output.file_lock import file_lock
from cluster.output.storage import Storage
from cluster.pieces.tasks import run_pieces
from cluster.runs.agent_file import agent_content, documents_of, read_agent
from cluster.runs.bm25_shards import bm25_in_shards
from cluster.runs.collections import Collections
from cluster.runs.part_keys import (
    keys_of,
    nearest_part,
    provenance,
    state_of,
    tokenization_of,
    validation_origin,
    validation_parts,
)
from cluster.runs.parts import Base, Lists, Part, restored
from cluster.runs.trained import read_as
from cluster.runs.zero_shot import ZeroShot, zero_shot
from pooling.systems.inputs import Rerank
from ranking.backing import at_hand, publish
from ranking.checkpoint import from_bytes, to_bytes
from ranking.collections.collection import Collection
from ranking.encoding import Encoder
from ranking.encoding_pieces import encode_in_pieces
from ranking.errors import BadInput
from ranking.pair_scores import PairScores
from ranking.ranked_lists import RankedLists
from ranking.sources import Sources
from ranking.splits import split_queries
from ranking.text_pieces import encode_pieces
from ranking.tokenization import Tokenization, Tokens
from rl.candidates import candidate_table
from rl.compression import compress
from rl.similarity import similarity_table
from rl.state import StateOptions
from sampling.guard import negatives_lists
from sampling.guarded_documents import GuardedDocuments
from sampling.retrieval.bm25 import Bm25Function
from sampling.teacher import teacher_scores

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
    _sources: dict[str, Sources] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._collections = Collections(self.note, self.rerank, self.lock)

    def collection(self, config: dict[str, Any]) -> Collection:
        """The collection of a configuration."""
        return self._collections.of(config)

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
        place = self._place(config, self.keys(config)[name])
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

    def bytes_of(self, config: dict[str, Any]) -> dict[str, int]:
        """What each part of a configuration takes in memory, by its key: about what it takes in the cache.

        Parts that are not there yet are made.
        """
        sizes = {}
        for name, key in self.keys(config).items():
            if name == "agent":
                sizes[key] = len(agent_content(checkpoint_of(config) or ""))
                continue
            place = self._place(config, key)
            if not at_hand(place):
                self.part(config, name)
            sizes[key] = place.stat().st_size
        return sizes

    def _place(self, config: dict[str, Any], key: str) -> Path:
        return cache_of(config) / "parts" / f"{key}.safetensors"

    def _make(self, config: dict[str, Any], name: str) -> Part:
        kind, _, which = name.partition(":")
        self.note(said_of(config, name))
        if kind == "base":
            return self._make_base(config)
        if kind == "tokens":
            tokenization = tokenization_of(config)
            assert tokenization is not None
            tokens = self._tokens(config, tokenization)
            if tokenization.remark:
                self.note(tokenization.remark)
            return tokens
        base = self.part(config, "base")
        assert isinstance(base, Base)
        if kind == "evaluate":
            return self._make_zero_shot(config, which)
        if kind == "compressed":
            state = state_of(config)
            assert isinstance(state, StateOptions)
            return compress(base.encoded, base.vectors, state.weighting)
        sources = self._sources.setdefault(self.keys(config)["base"], self.sources(config, base))
        if kind == "candidates":
            nearest, documents = self.part(config, nearest_part(config)), documents_of(config)
            assert isinstance(nearest, Lists)
            assert nearest.lists is not None
            assert documents is not None
            return candidate_table(nearest.lists, sources, documents)
        if kind == "similarity":
            lists = self.part(config, f"function:{which}")
            assert isinstance(lists, Lists)
            return similarity_table(build(config["function"][which]), lists.lists, sources)
        if kind == "function":
            return self._make_lists(config, which, sources, base)
        if kind == "teacher":
            return self._make_teacher(config, sources, base)
        if kind == "objective":
            return build(config["objective"]).rank(sources)
        split, node = (
            ("dev", validation_origin(config, validation_parts(config)[name]))
            if kind == "validation"
            else ("test", config["origin"][which])
        )
        queries = np.unique(np.concatenate([getattr(each, split) for each in base.splits]))
        return build(node).candidates(sources, queries)

    def sources(self, config: dict[str, Any], base: Base) -> Sources:
        """What functions of a configuration rank with."""
        return Sources(self.collection(config), base.encoded, base.vectors, run_pieces, cache_of(config) / "bm25")

    def _make_base(self, config: dict[str, Any]) -> Base:
        collection = self.collection(config)
        encoder: Encoder = build(config["encoding"], "encoding")
        if collection.pieces:
            folder = self._place(config, self.keys(config)["base"]).with_suffix("")
            encoded, words = encode_in_pieces(encoder, collection, folder, run_pieces)
        else:
            encoded, words = encoder.encode(collection)
        vectors = build(config["vectors"], "vectors").read(words)
        splits = split_queries(collection, encoded, config["folds"], config["limits"])
        return Base(encoded, vectors, splits, np.frombuffer("\n".join(words).encode(), np.uint8))

    def _tokens(self, config: dict[str, Any], tokenization: Tokenization) -> Tokens:
        collection = self.collection(config)
        make = tokenization.of_documents()
        if not collection.pieces or make is None:
            return tokenization.encode(collection)
        folder = self._place(config, self.keys(config)["tokens"]).with_suffix("")
        documents = encode_pieces(collection.pieces, folder, make, run_pieces)
        return Tokens(documents, tokenization.of_queries(collection))

    def _make_lists(self, config: dict[str, Any], name: str, sources: Sources, base: Base) -> Lists:
        """A function's lists, guarded: by a ranker, which takes its time, those of training queries alone."""
        function, guard = build(config["function"][name]), build(config["sampling"]["guard"], "sampling.guard")
        if isinstance(function, Bm25Function) and name in bm25_in_shards(config):
            sources.bm25(function.options, function.shards)  # counted now, and searched while rankers train
            return Lists(None, GuardedDocuments.joined([]))
        if guard.ranker is None:
            return Lists(*negatives_lists(function, sources, guard))
        asked = np.unique(np.concatenate([split.train for split in base.splits]))
        found, guarded = negatives_lists(function, sources, guard, asked)
        if found is None:
            return Lists(None, guarded)
        self.note(
            f"{name}: the guard's ranker dropped {guarded.total:,} documents of the lists, and would have dropped "
            f"{guarded.relevant:,} that are judged relevant"
        )
        shape = (len(base.encoded.queries), found.documents.shape[1])
        lists = RankedLists(np.full(shape, -1, np.int32), np.full(shape, -np.inf, np.float32))
        lists.documents[asked], lists.scores[asked] = found.documents, found.scores
        return Lists(lists, guarded)

    def _make_teacher(self, config: dict[str, Any], sources: Sources, base: Base) -> PairScores:
        """A teacher's scores of what a run may show: relevant documents and the functions' lists."""
        shown = [self.part(config, f"function:{name}") for name in config["function"]]
        lists = [each.lists for each in shown if isinstance(each, Lists) and each.lists is not None]
        queries = np.unique(np.concatenate([split.train for split in base.splits]))
        return teacher_scores(build(config["teacher"], "teacher"), sources, queries, lists)

    def _make_zero_shot(self, config: dict[str, Any], name: str) -> ZeroShot:
        collection, base = self._collections.other(config, name), self.part(config, "base")
        assert isinstance(base, Base)
        encoded, words = build(config["encoding"], "encoding").encode(collection)
        read = read_as(config["ranker"], config["encoding"], base.words, collection, encoded)
        return zero_shot(config, Sources(collection, encoded, build(config["vectors"], "vectors").read(words)), read)


def said_of(config: dict[str, Any], name: str | None) -> str:
    """What people are told while a part is made; None: the collection."""
    kind, _, which = (name or "").partition(":")
    return SAID.get(kind, f"ranking: {which}") if name else f"reading {config['choices']['collection']}"


def cached_part(name: str, place: Path) -> Part | None:
    """A part from its file; None where there is none, or it is cut short by a full disk or a kill of old."""
    if not at_hand(place):
        return None
    try:
        return restored(name, from_bytes(place.read_bytes(), str(place), place.parent))
    except BadInput:
        return None
