"""Makes each kind of part that runs share, for `Artifacts.part` if the cache lacks one."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.cluster.config.build import build
from pyrite.cluster.config.compose import TEXTS_ONLY
from pyrite.cluster.executors.pieces import run_pieces
from pyrite.cluster.output.terminal import counted
from pyrite.cluster.runs.agent_file import documents_of
from pyrite.cluster.runs.part_keys import (
    bm25_in_shards,
    nearest_part,
    state_of,
    tokenization_of,
    validation_origin,
    validation_parts,
)
from pyrite.cluster.runs.parts import Base, Lists
from pyrite.cluster.runs.trained import RankerReading
from pyrite.cluster.runs.zero_shot import zero_shot
from pyrite.ranking.encoding import Encoder, unmatched_queries
from pyrite.ranking.encoding_pieces import encode_in_pieces
from pyrite.ranking.errors import BadInput
from pyrite.ranking.labels import label_names
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.ranking.sources import Sources
from pyrite.ranking.splits import split_queries
from pyrite.ranking.text_pieces import encode_pieces
from pyrite.ranking.tokenization import Tokens
from pyrite.rl.candidates import candidate_table
from pyrite.rl.compression import compress
from pyrite.rl.similarity import similarity_table
from pyrite.rl.state import StateOptions
from pyrite.sampling.guard import negatives_lists
from pyrite.sampling.guarded_documents import GuardedDocuments
from pyrite.sampling.retrieval.bm25 import Bm25Function
from pyrite.sampling.retrieval.judged import Judged
from pyrite.sampling.teacher import teacher_scores


def make_part(artifacts: Any, config: dict[str, Any], name: str) -> Any:
    """Make one part of a configuration.

    Args:
        artifacts: the `Artifacts`, which open or make the parts that it needs, and import this module.
    """
    kind, _, which = name.partition(":")
    if kind == "base":
        return _base(artifacts, config)
    if kind == "tokens":
        return _tokens(artifacts, config)
    if kind == "labels":  # their names, as JSON in UTF-8
        names = json.dumps(label_names(artifacts.collection(config)), ensure_ascii=False)
        return np.frombuffer(names.encode(), np.uint8)
    base: Base = artifacts.part(config, "base")
    if kind == "evaluate":
        collection = artifacts.other_collection(config, which)
        encoded, words = build(config["encoding"], "encoding").encode(collection)
        labels = json.loads(artifacts.part(config, "labels").tobytes()) if config["ranker"].get("categories") else None
        read = RankerReading(config["ranker"], config["encoding"], base.words, labels).read(collection, encoded)
        return zero_shot(config, Sources(collection, encoded, build(config["vectors"], "vectors").read(words)), read)
    if kind == "compressed":
        state = state_of(config)
        assert isinstance(state, StateOptions)
        return compress(base.encoded, base.vectors, state.weighting)
    sources = artifacts.sources(config, base)
    if kind == "candidates":
        nearest, documents = artifacts.part(config, nearest_part(config)), documents_of(config)
        assert documents is not None
        return candidate_table(nearest.lists, sources, documents)
    if kind == "similarity":
        lists = artifacts.part(config, f"function:{which}").lists
        return similarity_table(build(config["function"][which]), lists, sources)
    if kind == "function":
        return _lists(artifacts, config, which, sources, base)
    if kind == "teacher":  # scores the documents that a run may show: relevant ones and the functions' lists
        lists = [artifacts.part(config, f"function:{function}").lists for function in config["function"]]
        listed = [ranked for ranked in lists if ranked is not None]
        return teacher_scores(build(config["teacher"], "teacher"), sources, base.queries("train"), listed)
    if kind == "objective":
        return build(config["objective"]).rank(sources)
    if kind == "validation":
        origin = validation_origin(config, validation_parts(config)[name])
        return build(origin).of(sources, base.queries("dev"))
    return build(config["origin"][which]).of(sources, base.queries("test"))


FEW = 0.05
"""The share of queries without a word in any document from which a line says so."""


def _base(artifacts: Any, config: dict[str, Any]) -> Base:
    collection = artifacts.collection(config)
    encoder: Encoder = build(config["encoding"], "encoding")
    if collection.pieces:
        folder = artifacts.place(config, artifacts.keys(config)["base"]).with_suffix("")
        encoded, words = encode_in_pieces(encoder, collection, folder, run_pieces)
    else:
        encoded, words = encoder.encode(collection)
    if (unmatched := len(unmatched_queries(encoded))) > FEW * len(encoded.queries):
        artifacts.note(
            f"{unmatched:,} of {len(encoded.queries):,} queries share no word with any document; for text without "
            "blanks (Chinese, Japanese, Thai) set collection.tokenizer=characters, or subwords"
        )
    vectors = build(config["vectors"], "vectors").read(words)
    try:
        splits = split_queries(collection, encoded, config["folds"], config["limits"])
    except BadInput:
        if TEXTS_ONLY not in config:
            raise
        splits = []  # too few queries to cross-validate, which only a run does
    return Base(encoded, vectors, splits, np.frombuffer("\n".join(words).encode(), np.uint8))


def _tokens(artifacts: Any, config: dict[str, Any]) -> Tokens:
    collection, tokenization = artifacts.collection(config), tokenization_of(config)
    assert tokenization is not None
    if collection.pieces and (make := tokenization.of_documents()):
        folder = artifacts.place(config, artifacts.keys(config)["tokens"]).with_suffix("")
        documents = encode_pieces(collection.pieces, folder, make, run_pieces)
        tokens = Tokens(documents, tokenization.of_queries(collection))
    else:
        tokens = tokenization.encode(collection)
    if tokenization.remark:
        artifacts.note(tokenization.remark)
    return tokens


def _lists(artifacts: Any, config: dict[str, Any], name: str, sources: Sources, base: Base) -> Lists:
    """Return a function's guarded lists. A guard's ranker is slow, so it guards only lists of training queries."""
    function, guard = build(config["function"][name]), build(config["sampling"]["guard"], "sampling.guard")
    if isinstance(function, Bm25Function) and name in bm25_in_shards(config):
        sources.bm25(function.options, function.shards)  # indexed now, and searched while rankers train
        return Lists(None, GuardedDocuments.joined([]))
    if isinstance(function, Judged):
        function.prepare(base.encoded, None)  # refuses a collection without such documents before anything is written
    queries = None if guard.ranker is None else base.queries("train")
    lists, guarded, _ = negatives_lists(function, sources, guard, queries)
    if lists is not None and queries is not None:
        artifacts.note(
            f"{name}: the guard's ranker dropped {counted(guarded.total, 'document')} of the lists, and would have "
            f"dropped {guarded.relevant:,} judged relevant"
        )

        def spread(values: NDArray[Any], missing: float) -> NDArray[Any]:
            every = np.full((len(base.encoded.queries), *values.shape[1:]), missing, values.dtype)
            every[queries] = values
            return every

        features = {name: spread(values, np.nan) for name, values in (lists.features or {}).items()}
        lists = RankedLists(spread(lists.documents, -1), spread(lists.scores, -np.inf), features)
    if guarded.repeats:
        artifacts.note(
            f"{name}: left out {counted(guarded.repeats, 'document')} with the text of a relevant document or of "
            "another one in the list, or the query itself"
        )
    return Lists(lists, guarded)
