"""Makes once what runs need of a collection: encoded texts, candidates, ranked lists.

Each part has a key, the digest of all that it depends on. A part is built at most once: it is cached on
disk under its key, and a study puts it into Ray's object store once for all the runs that share it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster.config.agents import checkpoint_of, learner_of
from cluster.config.build import build
from cluster.config.compose import compose
from cluster.config.groups import CHOICES, option
from cluster.output.provenance import code, contents
from cluster.output.storage import Storage
from cluster.runs.agent_file import agent_content, documents_of, has_agent, read_agent
from cluster.runs.trained import read_as
from cluster.runs.zero_shot import ZeroShot, collections_of, zero_shot
from ranking.checkpoint import from_bytes, to_bytes
from ranking.collections.cache import default_cache, open_collection
from ranking.collections.collection import Collection
from ranking.digest import digest
from ranking.encoding import SPLITS, EncodedCollection, Judgements
from ranking.errors import BadInput
from ranking.evaluation.origins import Candidates
from ranking.objectives.objective import Objective
from ranking.pair_scores import PairScores
from ranking.ranked_lists import RankedLists
from ranking.relabel import relabelled
from ranking.sources import Sources
from ranking.splits import Split, split_queries
from ranking.texts import Texts
from ranking.tokenization import Tokenization, Tokens
from ranking.vectors import WordVectors
from rl.candidates import candidate_table
from rl.compression import Compressed, compress
from rl.mixture import MixtureAgent
from rl.progress import ProgressOptions
from rl.similarity import similarity_table
from rl.state import StateOptions
from rl.trained import TrainedAgent
from sampling.guard import negatives_lists
from sampling.guarded_documents import GuardedDocuments
from sampling.teacher import teacher_scores

FORMAT = 8
"""Raised whenever a part's content changes for the same configuration."""


@dataclass(frozen=True)
class Base:
    """The part that every run takes."""

    encoded: EncodedCollection
    vectors: WordVectors
    splits: list[Split]
    spelled: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    """The words of the vocabulary in UTF-8, a line each: a ranker that reads them is nothing without."""

    @property
    def words(self) -> list[str]:
        """The word of each token id."""
        return self.spelled.tobytes().decode().split("\n")


@dataclass(frozen=True)
class Lists:
    """A retrieval function's lists (None where it ranks by itself), and what the guard took from them."""

    lists: RankedLists | None
    guarded: GuardedDocuments


Part = (
    Base
    | Tokens
    | Candidates
    | Lists
    | RankedLists
    | PairScores
    | Compressed
    | NDArray[np.float32]
    | TrainedAgent
    | MixtureAgent
    | ZeroShot
)
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


OF_TEXTS = ("collection", "vectors", "encoding", "strict", "cache")
"""Options that verbs share with runs, which read a collection without training on it."""


def texts_config(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration of a run over the texts that another verb's options name: its part `base` is these texts.

    Args:
        config: composed, with some of `OF_TEXTS`.
    """
    whole = compose([])
    chosen = whole[CHOICES] | {"collection": config[CHOICES]["collection"]}
    return whole | {key: config[key] for key in OF_TEXTS if key in config} | {CHOICES: chosen}


@dataclass
class Artifacts:
    """Makes the parts of configurations, remembering what they share.

    Args:
        note: told what is being made, for people who wait.
    """

    note: Callable[[str], None] = lambda line: None
    _collections: dict[str, Collection] = field(default_factory=dict)
    _sources: dict[str, Sources] = field(default_factory=dict)

    def collection(self, config: dict[str, Any]) -> Collection:
        """The collection of a configuration."""
        mended = config.get("relabel")  # not of every verb
        key = digest([config["collection"], config["strict"], _content(mended)])
        if key not in self._collections:
            name = config["choices"]["collection"]
            self.note(f"reading {name}")
            reader = build(config["collection"], "collection")
            collection = open_collection(reader, self._cache(config) / "collections", config["strict"])
            if collection.skipped:
                counts = ", ".join(f"{count} × {kind}" for kind, count in collection.skipped.items())
                self.note(f"skipped in {name}: {counts}")
            for what, count in collection.facts.items():
                if what.startswith("queries "):
                    self.note(f"{what} in {name}: {count}")
            self._collections[key] = relabelled(collection, mended) if mended else collection
        return self._collections[key]

    def keys(self, config: dict[str, Any]) -> dict[str, str]:
        """The name and key of each part of a configuration, cheaply: nothing but the collection is read."""
        fingerprint = self.collection(config).fingerprint
        limits = {split: config["limits"][split] for split in SPLITS}
        options = [config["encoding"], config["vectors"], limits, config["folds"]]
        content = [FORMAT, fingerprint, *options, *_files(config["vectors"])]
        if absent := build(config["vectors"], "vectors").stand_in():
            content.append(absent[1])  # a study is not resumed with other vectors once these are installed
        base = digest(content)
        keys = {"base": base}
        if tokenization := tokenization_of(config):
            keys["tokens"] = digest([FORMAT, fingerprint, tokenization.key()])
        for name, node in config["origin"].items():
            keys[f"origin:{name}"] = digest([base, "test", node, _files(node)])
        for name, origin in validation_parts(config).items():
            validation = self._validation_origin(config, origin)
            keys[name] = digest([base, "dev", validation, _files(validation)])
        if ranks_ahead(config["objective"]):
            keys["objective"] = digest([base, config["objective"], _files(config["objective"])])
        guard = config["sampling"]["guard"]
        for name, node in config["function"].items():
            keys[f"function:{name}"] = digest([base, node, guard, _files(node), *_files(guard.get("ranker") or {})])
        if teacher := config.get("teacher"):
            lists = [keys[f"function:{name}"] for name in config["function"]]
            keys["teacher"] = digest([base, teacher, _files(teacher), lists])
        return keys | self._observed(config, keys) | self._zero_shot_keys(config, keys)

    def _zero_shot_keys(self, config: dict[str, Any], keys: Mapping[str, str]) -> dict[str, str]:
        """Keys of the other collections that are measured on, which depend on how the ranker reads."""
        found, read = {}, keys.get("tokens", keys["base"])
        for name in collections_of(config.get("evaluate", [])):
            fingerprint = self._other(config, name).fingerprint
            content = [FORMAT, fingerprint, read, config["encoding"], config["origin"], config["limits"]["test"]]
            found[f"evaluate:{name}"] = digest(content)
        return found

    def _other(self, config: dict[str, Any], name: str) -> Collection:
        """One of the collections that are measured on besides the run's own."""
        reader = collections_of(config["evaluate"])[name]
        key = digest([str(reader.path), config["strict"]])
        if key not in self._collections:
            self.note(f"reading {name}")
            self._collections[key] = open_collection(reader, self._cache(config) / "collections", config["strict"])
        return self._collections[key]

    def _make_zero_shot(self, config: dict[str, Any], name: str) -> ZeroShot:
        collection, base = self._other(config, name), self.part(config, "base")
        assert isinstance(base, Base)
        encoded, words = build(config["encoding"], "encoding").encode(collection)
        read = read_as(config["ranker"], config["encoding"], base.words, collection, encoded)
        return zero_shot(config, Sources(collection, encoded, build(config["vectors"], "vectors").read(words)), read)

    def provenance(self, config: dict[str, Any]) -> dict[str, str]:
        """All that a run's result is made of besides its configuration: its parts, the ranker's checkpoint, our code.

        Nothing where an agent is still to be learned.
        """
        if learner_of(config) or ((agent := checkpoint_of(config)) and not has_agent(agent)):
            return {}
        checkpoints = _checkpoints(config["ranker"])
        return self.keys(config) | ({"ranker": digest(checkpoints)} if checkpoints else {}) | code()

    def _observed(self, config: dict[str, Any], keys: dict[str, str]) -> dict[str, str]:
        """Keys of what an agent's states look up, where there is one: it learns, or was learned."""
        found = {}
        if checkpoint := checkpoint_of(config):
            found["agent"] = digest(hashlib.sha256(agent_content(checkpoint)).hexdigest())
        elif "state" not in config:
            return {}
        state = self._state(config)
        if isinstance(state, ProgressOptions):  # it looks up nothing
            return found
        found["compressed"] = digest([keys["base"], state.weighting])
        for name in config["function"]:
            found[f"similarity:{name}"] = digest([keys[f"function:{name}"], "similarity"])
        if documents := documents_of(config):
            found["candidates"] = digest([keys[_nearest(config)], "candidates", documents])
        return found

    def _state(self, config: dict[str, Any]) -> StateOptions | ProgressOptions:
        """How the agent's states are described."""
        if checkpoint := checkpoint_of(config):
            return read_agent(checkpoint).state
        options: StateOptions | ProgressOptions = build(config["state"])
        return options

    def part(self, config: dict[str, Any], name: str) -> Part:
        """One part, from the cache or made now."""
        if name == "agent":
            return read_agent(checkpoint_of(config) or "")
        if name == "base" and (absent := build(config["vectors"], "vectors").stand_in()):
            self.note(absent[1])
        place = self._place(config, self.keys(config)[name])
        if place.is_file():
            try:
                return _RESTORE[name.split(":")[0]](from_bytes(place.read_bytes(), str(place)))
            except BadInput:  # cut short by a full disk or a kill of old: make it again
                pass
        part = self._make(config, name)
        Storage(str(place.parent), "cache").write(place.name, to_bytes(part))
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
            if not place.is_file():
                self.part(config, name)
            sizes[key] = place.stat().st_size
        return sizes

    def _place(self, config: dict[str, Any], key: str) -> Path:
        return self._cache(config) / "parts" / f"{key}.safetensors"

    def _make(self, config: dict[str, Any], name: str) -> Part:
        kind, _, which = name.partition(":")
        self.note(SAID.get(kind, f"ranking: {which}"))
        if kind == "base":
            return self._make_base(config)
        if kind == "tokens":
            tokenization = tokenization_of(config)
            assert tokenization is not None
            tokens = tokenization.encode(self.collection(config))
            if tokenization.remark:
                self.note(tokenization.remark)
            return tokens
        base = self.part(config, "base")
        assert isinstance(base, Base)
        if kind == "evaluate":
            return self._make_zero_shot(config, which)
        if kind == "compressed":
            state = self._state(config)
            assert isinstance(state, StateOptions)
            return compress(base.encoded, base.vectors, state.weighting)
        sources = self._sources.setdefault(
            self.keys(config)["base"], Sources(self.collection(config), base.encoded, base.vectors)
        )
        if kind == "candidates":
            nearest, documents = self.part(config, _nearest(config)), documents_of(config)
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
            ("dev", self._validation_origin(config, validation_parts(config)[name]))
            if kind == "validation"
            else ("test", config["origin"][which])
        )
        queries = np.unique(np.concatenate([getattr(each, split) for each in base.splits]))
        return build(node).candidates(sources, queries)

    def _make_base(self, config: dict[str, Any]) -> Base:
        collection = self.collection(config)
        encoded, words = build(config["encoding"], "encoding").encode(collection)
        vectors = build(config["vectors"], "vectors").read(words)
        splits = split_queries(collection, encoded, config["folds"], config["limits"])
        return Base(encoded, vectors, splits, np.frombuffer("\n".join(words).encode(), np.uint8))

    def _make_lists(self, config: dict[str, Any], name: str, sources: Sources, base: Base) -> Lists:
        """A function's lists, guarded: by a ranker, which takes its time, those of training queries alone."""
        function, guard = build(config["function"][name]), build(config["sampling"]["guard"], "sampling.guard")
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

    def _validation_origin(self, config: dict[str, Any], name: str) -> dict[str, Any]:
        return config["origin"].get(name) or option("origin", name)[name]

    def _cache(self, config: dict[str, Any]) -> Path:
        return Path(config["cache"]) if config["cache"] else default_cache()


def validation_parts(config: dict[str, Any]) -> dict[str, str]:
    """The origins whose candidates validate, by the names of their parts; the first one leads."""
    given = config["validation"]["origin"]
    leading, *others = [given] if isinstance(given, str) else given
    return {"validation": leading} | {f"validation:{origin}": origin for origin in others}


def _content(path: str | None) -> str | None:
    """Of a file of judgements, for a digest."""
    if path is None:
        return None
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        raise BadInput(f"can't be read ({error.strerror})", path) from None


def ranks_ahead(node: dict[str, Any]) -> bool:
    """Whether an objective has lists made ahead of time (`Objective.rank`)."""
    return type(build(node)).rank is not Objective.rank


def tokenization_of(config: dict[str, Any]) -> Tokenization | None:
    """How the configured ranker wants its texts; None where it reads our words."""
    ranker = build(config["ranker"])
    found: Tokenization | None = ranker.func.tokenization(**ranker.keywords)
    return found


def read_encoded(parts: dict[str, Any]) -> EncodedCollection:
    """The collection as the ranker reads it: of words, or of its own tokens."""
    encoded: EncodedCollection = parts["base"].encoded
    tokens: Tokens | None = parts.get("tokens")
    if tokens is None:
        return encoded
    documents = replace(tokens.documents, labels=encoded.documents.labels)
    return replace(encoded, documents=documents, queries=replace(tokens.queries, labels=encoded.queries.labels))


def _nearest(config: dict[str, Any]) -> str:
    """The part whose lists an agent picks documents from: those of the one function."""
    (name,) = config["function"]
    return f"function:{name}"


def checkpoint_files(checkpoint: str | None) -> list[str]:
    """The files of a checkpoint's folder; none where it is a name at the hub, or where there is no checkpoint."""
    folder = Path(checkpoint or "").expanduser()
    if checkpoint and folder.is_file():
        return [str(folder)]
    files = [*folder.glob("*.*"), *folder.glob("weights/**/*.*")] if checkpoint and folder.is_dir() else []
    return sorted(str(file) for file in files if file.is_file())


def _files(node: dict[str, Any]) -> list[str]:
    """The content of the files that an option names, so that a changed one is read again."""
    paths = node.get("path") or checkpoint_files(node.get("checkpoint"))
    return contents([paths] if isinstance(paths, str) else paths)


def _checkpoints(node: Any) -> list[str]:
    """The content of all checkpoints in a piece of configuration."""
    if not isinstance(node, dict):
        return []
    own = _files({"checkpoint": node.get("checkpoint")})
    return [*own, *(each for value in node.values() for each in _checkpoints(value))]


def _texts(state: dict[str, Any]) -> Texts:
    return Texts(state["tokens"], state["offsets"], state["labels"])


def _tokens(state: dict[str, Any]) -> Tokens:
    return Tokens(_texts(state["documents"]), _texts(state["queries"]))


def _zero_shot(state: dict[str, Any]) -> ZeroShot:
    candidates = {name: _candidates(each) for name, each in state["candidates"].items()}
    return ZeroShot(_encoded(state["encoded"]), candidates)


def _encoded(state: dict[str, Any]) -> EncodedCollection:
    texts = {name: _texts(state[name]) for name in ("documents", "queries")}
    return EncodedCollection(**(state | texts | {"judgements": Judgements(**state["judgements"])}))


def _base(state: dict[str, Any]) -> Base:
    splits = [Split(**split) for split in state["splits"]]
    return Base(_encoded(state["encoded"]), WordVectors(**state["vectors"]), splits, state["spelled"])


def _candidates(state: dict[str, Any]) -> Candidates:
    return Candidates(**(state | {"first_stage": RankedLists(**state["first_stage"])}))


def _lists(state: dict[str, Any]) -> Lists:
    return Lists(RankedLists(**state["lists"]) if state["lists"] else None, GuardedDocuments(**state["guarded"]))


_RESTORE: dict[str, Callable[[Any], Part]] = {
    "base": _base, "tokens": _tokens, "origin": _candidates, "validation": _candidates, "function": _lists,
    "evaluate": lambda state: _zero_shot(state),
    "compressed": lambda state: Compressed(**state), "similarity": lambda table: table,
    "candidates": lambda table: table, "objective": lambda state: RankedLists(**state),
    "teacher": lambda state: PairScores(**state),
}  # fmt: skip
