"""Makes the parts that runs share: encoded texts, candidates, ranked lists, and the tables of agents."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.cluster.config.build import build, locate
from pyrite.cluster.config.compose import TEXTS_ONLY
from pyrite.cluster.config.word_vectors import word_vectors
from pyrite.cluster.executors.pieces import run_pieces
from pyrite.cluster.output.terminal import counted
from pyrite.cluster.runs.agent_file import documents_of
from pyrite.cluster.runs.before_training import BeforeTraining, measure_before, measured_origins
from pyrite.cluster.runs.collections import collections_of
from pyrite.cluster.runs.part_options import (
    bm25_in_shards,
    observed_functions,
    state_of,
    tokenization_of,
    validation_node,
    validation_origins,
)
from pyrite.cluster.runs.parts import Base, Lists
from pyrite.cluster.runs.shared_part import Config, shared_part
from pyrite.cluster.runs.trained import RankerReading
from pyrite.cluster.runs.zero_shot import ZeroShot, zero_shot
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.digest import checkpoints_of, files_of
from pyrite.ranking.encoding import SPLITS, Encoder, unmatched_queries
from pyrite.ranking.encoding_pieces import encode_in_pieces
from pyrite.ranking.errors import BadInput
from pyrite.ranking.evaluation.origins import Candidates
from pyrite.ranking.labels import label_names
from pyrite.ranking.objectives.objective import Objective
from pyrite.ranking.pair_scores import PairScores
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.ranking.sources import Sources
from pyrite.ranking.splits import split_queries
from pyrite.ranking.text_pieces import encode_pieces
from pyrite.ranking.tokenization import Tokens
from pyrite.rl.candidates import candidate_table
from pyrite.rl.compression import Compressed, compress
from pyrite.rl.similarity import similarity_table
from pyrite.sampling.guard import DEEPER, negatives_lists
from pyrite.sampling.guarded_documents import GuardedDocuments
from pyrite.sampling.retrieval.bm25 import BM25
from pyrite.sampling.retrieval.in_batch import InBatch
from pyrite.sampling.retrieval.judged import Judged
from pyrite.sampling.teacher import teacher_scores

Note = Callable[[str], None]
FEW = 0.05
"""The share of queries without a word in any document from which a line says so."""
SCRIPTS = "[\\p{Han}\\p{Hiragana}\\p{Katakana}\\p{Thai}\\p{Lao}\\p{Khmer}\\p{Myanmar}]"
"""A letter of a script without blanks between words."""
WITHOUT_BLANKS = "for text without blanks between words set collection.tokenizer=characters, or subwords"
WITH_BLANKS = "BM25 finds nothing for them, and function=[bm25,random] also gives them negatives"


def _built(config: Config, key: str, name: str | None = None) -> Any:
    """Return the part of a configuration under a key, or under a name within it."""
    at = key if name is None else f"{key}.{name}"
    return build(config[key] if name is None else config[key][name], at, trust="composed")


def _text_options(config: Config, name: str) -> list[Any]:
    vectors = word_vectors(config)
    limits = {split: config["limits"][split] for split in SPLITS}
    # So that a study is not resumed with other vectors once these are installed.
    absent = build(vectors, "vectors", trust="composed").stand_in()
    return [config["encoding"], vectors, limits, config["folds"], files_of(vectors), absent and absent[1]]


@shared_part("encoding texts", options=_text_options)
def base(collection: Collection, config: Config, note: Note, folder: Callable[[str], Path]) -> Base:
    """Encode the texts of a collection, read word vectors and split the queries."""
    encoder: Encoder = _built(config, "encoding")
    if collection.pieces:
        encoded, words = encode_in_pieces(encoder, collection, folder("base"), run_pieces)
    else:
        encoded, words = encoder.encode(collection)
    unmatched = unmatched_queries(encoded)
    if len(unmatched) > FEW * len(encoded.queries):
        texts = collection.queries["text"].gather(unmatched.astype(np.uint32))
        note(
            f"{len(unmatched):,} of {len(encoded.queries):,} queries share no word with any document: "
            + (WITHOUT_BLANKS if 2 * texts.str.contains(SCRIPTS).sum() > len(texts) else WITH_BLANKS)
        )
    vectors = build(word_vectors(config), "vectors", trust="composed").read(words)
    try:
        splits = split_queries(collection, encoded, config["folds"], config["limits"])
    except BadInput:
        if TEXTS_ONLY not in config:
            raise
        splits = []  # too few queries to cross-validate, which only a run does
    return Base(encoded, vectors, splits, np.frombuffer("\n".join(words).encode(), np.uint8))


def _token_key(config: Config, name: str) -> list[Any]:
    tokenization = tokenization_of(config)
    return [tokenization and tokenization.key()]


@shared_part("tokenizing texts", options=_token_key, exists=tokenization_of)
def tokens(collection: Collection, config: Config, note: Note, folder: Callable[[str], Path]) -> Tokens:
    """Tokenize the texts of a collection for the ranker."""
    tokenization = tokenization_of(config)
    assert tokenization is not None
    if collection.pieces and (make := tokenization.of_documents()):
        documents = encode_pieces(collection.pieces, folder("tokens"), make, run_pieces)
        read = Tokens(documents, tokenization.of_queries(collection))
    else:
        read = tokenization.encode(collection)
    if tokenization.remark:
        note(tokenization.remark)
    return read


@shared_part("reading categories", exists=lambda config: config["ranker"].get("categories"))
def labels(collection: Collection) -> NDArray[np.uint8]:
    """Return the names of the categories, as JSON in UTF-8."""
    return np.frombuffer(json.dumps(label_names(collection), ensure_ascii=False).encode(), np.uint8)


def _node_and_files(key: str) -> Callable[[Config, str], list[Any]]:
    return lambda config, name: [config[key][name], files_of(config[key][name])]


@shared_part("ranking: {name}", lambda config: config["origin"], _node_and_files("origin"))
def origin(config: Config, name: str, sources: Sources, base: Base) -> Candidates:
    """Return the candidates of the test queries, from an origin."""
    return _built(config, "origin", name).of(sources, base.queries("test"))


def _ranker_options(config: Config, name: str) -> list[Any]:
    ranker = config["ranker"]
    return [ranker, checkpoints_of(ranker), config["encoding"], config["measures"], config["resources"]["gpu"] > 0]


@shared_part("measuring before training: {name}", measured_origins, _ranker_options, as_a_run=True)
def untrained(config: Config, name: str, read: dict[str, Any], tested: Candidates) -> BeforeTraining:
    """Measure the checkpoint of the ranker, over the candidates of an origin."""
    return measure_before(config, read, tested)


def _validation_options(config: Config, name: str) -> list[Any]:
    node = validation_node(config, validation_origins(config)[name])
    return [node, files_of(node)]


@shared_part("ranking for validation", lambda config: validation_origins(config), _validation_options)
def validation(config: Config, name: str, sources: Sources, base: Base) -> Candidates:
    """Return the candidates of the dev queries, from an origin."""
    node = validation_node(config, validation_origins(config)[name])
    return build(node, trust="composed").of(sources, base.queries("dev"))


def _ranks_ahead(config: Config) -> bool:
    """Return whether the objective ranks documents before the training."""
    return type(_built(config, "objective")).rank is not Objective.rank


@shared_part(
    "preparing the objective",
    options=lambda config, name: [config["objective"], files_of(config["objective"])],
    exists=_ranks_ahead,
)
def objective(config: Config, sources: Sources) -> RankedLists:
    """Return the documents that the objective ranks before the training."""
    return _built(config, "objective").rank(sources)


def _function_options(config: Config, name: str) -> list[Any]:
    node, guard = config["function"][name], config["guard"]
    # With shards, some runs have lists and others do not.
    listed = name in bm25_in_shards(config, listed=True)
    guides = [files_of(each.get("ranker") or {}) for each in (guard, node.get("guard") or {})]
    return [node, guard, files_of(node), *guides, listed]


@shared_part("ranking: {name}", lambda config: config["function"], _function_options)
def function(config: Config, name: str, sources: Sources, base: Base, note: Note) -> Lists:
    """Return a function's guarded lists. A guard's ranker is slow, so it guards only lists of training queries."""
    function = build(config["function"][name], trust="composed")
    guard = build(config["guard"], "guard", trust="composed")
    if isinstance(function, BM25) and name in bm25_in_shards(config):
        sources.bm25(function.options, function.shards)  # indexed now, and searched while rankers train
        return Lists(None, GuardedDocuments.joined([]))
    if isinstance(function, Judged):
        function.prepare(base.encoded, None)  # refuses a collection without such documents before anything is written
    queries = None if guard.ranker is None else base.queries("train")
    lists, guarded, _ = negatives_lists(function, sources, guard, queries)
    if isinstance(function, InBatch) and lists is not None:
        queries_masked = int((lists.counts > 0).sum())
        note(
            f"{name}: the guide masks {counted(int(lists.counts.sum()), 'document')} for "
            f"{counted(queries_masked, 'query')}; {guarded.total:,} are above the limit"
        )
    elif lists is not None and queries is not None:
        note(
            f"{name}: the guard's ranker dropped {counted(guarded.total, 'document')} of the first "
            f"{guard.deepest or DEEPER * function.longest(sources):,} of each list, and would have dropped "
            f"{guarded.relevant:,} judged relevant"
        )
        count = len(base.encoded.queries)
        documents, scores = (
            _spread(lists.documents, queries, count, -1),
            _spread(lists.scores, queries, count, -np.inf),
        )
        lists = RankedLists(documents, scores)
    if guarded.unlimited:
        note(
            f"{name}: for {counted(guarded.unlimited, 'query')} no relevant document has a score, so that the guard's "
            "margins drop nothing"
        )
    if guarded.repeats:
        note(
            f"{name}: left out {counted(guarded.repeats, 'document')} with the text of a relevant document or of "
            "another one in the list, or the query itself"
        )
    return Lists(lists, guarded)


def _spread(rows: NDArray[Any], queries: NDArray[np.int64], count: int, missing: float) -> NDArray[Any]:
    """Return the rows of some of `count` queries among rows for all, `missing` for the others."""
    every = np.full((count, *rows.shape[1:]), missing, rows.dtype)
    every[queries] = rows
    return every


@shared_part(
    "asking the teacher",
    options=lambda config, name: [config["teacher"], files_of(config["teacher"])],
    exists=lambda config: config.get("teacher"),
)
def teacher(config: Config, sources: Sources, base: Base, every_list: list[RankedLists | None]) -> PairScores:
    """Score what a run may show: relevant documents and the functions' lists."""
    named = zip(config["function"].values(), every_list, strict=True)
    listed = [ranked for node, ranked in named if ranked is not None and locate(node["_target_"]) is not InBatch]
    return teacher_scores(_built(config, "teacher"), sources, base.queries("train"), listed)


@shared_part(
    "compressing texts for the agent",
    options=lambda config, name: [state_of(config).weighting],
    exists=observed_functions,
)
def compressed(config: Config, base: Base) -> Compressed:
    """Compress texts into the vectors of an agent's states."""
    return compress(base.encoded, base.vectors, state_of(config).weighting)


@shared_part("measuring the candidates for the agent", observed_functions)
def similarity(config: Config, name: str, lists: RankedLists, sources: Sources) -> NDArray[np.float32]:
    """Measure how similar each query is to the candidates of a function."""
    return similarity_table(build(config["function"][name], trust="composed"), lists, sources)


@shared_part(
    "describing the candidates for the agent",
    options=lambda config, name: [documents_of(config)],
    exists=lambda config: observed_functions(config) and documents_of(config),
)
def candidates(config: Config, nearest: RankedLists, sources: Sources) -> NDArray[np.float32]:
    """Describe the candidates of each query, among which an agent picks documents."""
    documents = documents_of(config)
    assert documents is not None
    return candidate_table(nearest, sources, documents)


def _other_options(config: Config, name: str) -> list[Any]:
    return [config["encoding"], config["origin"], config["limits"]["test"], *_token_key(config, name)]


@shared_part(
    "reading a collection to be measured on",
    lambda config: collections_of(config.get("evaluate", [])),
    _other_options,
)
def evaluate(config: Config, other: Collection, base: Base, labels: NDArray[np.uint8] | None) -> ZeroShot:
    """Return another collection that a ranker is measured on, with candidates of its queries."""
    encoded, words = _built(config, "encoding").encode(other)
    names = None if labels is None else json.loads(labels.tobytes())
    read = RankerReading(config["ranker"], config["encoding"], base.words, names).read(other, encoded)
    vectors = build(word_vectors(config), "vectors", trust="composed").read(words)
    return zero_shot(config, Sources(other, encoded, vectors), read)
