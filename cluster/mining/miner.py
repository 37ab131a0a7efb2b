"""Mines shards of queries: ranks candidates, filters them by the guard, and lets a sampler pick negatives."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.cluster.config.build import build, build_each
from pyrite.cluster.config.compose import texts_config
from pyrite.cluster.config.counts import counts_of
from pyrite.cluster.config.validate import check_guards
from pyrite.cluster.config.word_vectors import reads_word_vectors
from pyrite.cluster.output.cache import cache_of
from pyrite.cluster.output.terminal import counted
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.trained import read_ranker
from pyrite.cluster.runs.zero_shot import at_most
from pyrite.ranking.batch import Batch, pairs_of
from pyrite.ranking.collections.splits import TEST_ONLY
from pyrite.ranking.digest import files_of
from pyrite.ranking.embedding import embed, embed_sparse
from pyrite.ranking.encoding import SPLITS, EncodedCollection, Judgements
from pyrite.ranking.errors import BadInput, none_relevant, refuse
from pyrite.ranking.frozen import FrozenRanker
from pyrite.ranking.index import IndexOptions, VectorIndex
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.ranking.rankers.dense import DenseRanker
from pyrite.ranking.rankers.ranker import Ranker
from pyrite.ranking.sources import Sources
from pyrite.ranking.sparse_products import SparseIndex
from pyrite.ranking.trec_files import check_collection
from pyrite.sampling.guard import GuardedLists, negatives_lists
from pyrite.sampling.guarded_documents import GuardedDocuments
from pyrite.sampling.policies.policy import SamplingPolicy
from pyrite.sampling.policies.schedule import Schedule
from pyrite.sampling.retrieval.dense import Dense
from pyrite.sampling.retrieval.function import RetrievalFunction
from pyrite.sampling.retrieval.in_batch import InBatch
from pyrite.sampling.retrieval.ranked import Ranked
from pyrite.sampling.sampler import Sampler
from pyrite.sampling.selection.selector import Selector
from pyrite.sampling.selection.window import Window

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Shard:
    """Queries of one split that are mined, and resumed, together.

    Args:
        name: name of its files, as `train-00003`.
        number: number among all shards. With the seed it determines every random draw.
        queries: int64, ascending.
    """

    name: str
    number: int
    split: str
    queries: NDArray[np.int64]


def shards_of(encoded: EncodedCollection, config: dict[str, Any]) -> list[Shard]:
    """Return the shards of the requested queries that have a relevant document; refuse a collection without any."""
    answered = encoded.judgements.answered()
    wanted, size = config["queries"], config["shard"]
    split = (encoded.split >= 0).any()
    shards: list[Shard] = []
    for name in _splits(wanted, bool(split)):
        of_split = encoded.queries_of(name) if split else np.arange(len(encoded.queries))
        queries = at_most(config["most_queries"], encoded.queries, of_split[answered[of_split]])
        for number, start in enumerate(range(0, len(queries), size)):
            part = queries[start : start + size]
            shards.append(Shard(f"{name}-{number:05d}", len(shards), name, part))
    if not answered.any():
        raise none_relevant(encoded.judgements.relevant_from)
    if not shards:
        wanted = "" if wanted == "all" else f"{wanted} "
        raise BadInput(f"no {wanted}query has a relevant document", "queries", "choose train, dev, test or all")
    return shards


def _splits(wanted: str, split: bool) -> Sequence[str]:
    """Return the splits whose queries are mined; those of a collection without splits count as one."""
    if not split:
        return ["test" if wanted == "test" else "train"]
    return SPLITS if wanted == "all" else [wanted]


@dataclass(frozen=True)
class MinedShard:
    """The negatives of one shard, one row per example. An example is a query with one of its relevant documents.

    Args:
        queries, positives: int [e], indices in the collection.
        negatives: int32 [e, n], −1 if there were too few.
        functions: int8 [e, n], index of the function that supplied each negative.
        ranks: int32 [e, n], ranks from 1 in the function's list without relevant documents, before the guard; 0 if the
            function has no list.
        scores: float32 [e, 1 + n], scores of the positive and the negatives; nan if there is none. They are the
            ranker's, or a negative's is its function's, and the positive's that of the first function that scores
            positives.
        positive_scores: float32 [e, functions], the positive's score by the ranker, or by each function; nan if there
            is none.
        comparable: bool [e, 1 + n], whether a score is on the scale of the positive's in `scores`.
        guarded: the documents that the guard dropped, by function.
        lists: number of lists per function: one per query, or per example if each is guarded by its positive.
        fallback: number of negatives from outside a function's region, such as the query's category, by function.
        promoted: number of examples whose positive the guard's ranker has found.
    """

    queries: NDArray[np.int64]
    positives: NDArray[np.int32]
    negatives: NDArray[np.int32]
    functions: NDArray[np.int8]
    ranks: NDArray[np.int32]
    scores: NDArray[np.float32]
    positive_scores: NDArray[np.float32]
    comparable: NDArray[np.bool_]
    guarded: dict[str, GuardedDocuments]
    lists: int
    fallback: dict[str, int]
    promoted: int = 0

    def compared(self) -> NDArray[np.float32]:
        """Return float32 [e, n], the positive's score on the scale of each negative's; nan if there is none."""
        return np.take_along_axis(self.positive_scores, self.functions.astype(np.intp), axis=1)


class Miner:
    """Mines shards in one process, which opens collection, ranker and functions from a `MineConfig`."""

    def __init__(self, config: dict[str, Any], artifacts: Artifacts | None = None) -> None:
        give_back()
        artifacts, run = artifacts or Artifacts(), texts_config(config)
        self.config, self.collection, base = config, artifacts.collection(run), artifacts.part(run, "base")
        self.encoded = base.encoded
        self._check_queries()
        self.sources = Sources(self.collection, base.encoded, base.vectors, folder=cache_of(run))
        self.texts = artifacts.keys(run)["base"]
        self.guard = build(config["guard"], "guard", trust="composed")
        self.ranker, self.ranker_encoded = None, base.encoded
        self.reads_words = reads_word_vectors(config | {"ranker": None})
        refuse(
            config["ranker"] and not config["checkpoint"],
            "says what a checkpoint is, and none is named",
            "ranker",
            "give checkpoint= too",
        )
        if config["checkpoint"]:
            trained = read_ranker(config["checkpoint"], config["ranker"], precision=config["precision"])
            self.ranker, self.ranker_encoded = trained.ranker, trained.read(self.collection, base.encoded)
            self.reads_words |= trained.words is not None
        refuse(
            config["scores"] == "ranker" and self.ranker is None,
            "there is no ranker to score with",
            "scores=ranker",
            "name one by checkpoint=FOLDER",
        )
        self._check_promote()
        self.functions = {name: self._function(name, node) for name, node in config["function"].items()}
        self.names = list(self.functions)
        self._check_scores()
        self._check_guard()
        self._check_count(self._sampler(np.random.default_rng(0)))  # refuses unsuitable parts before anything is mined

    def _check_queries(self) -> None:
        """Refuse queries of a split that the collection does not have."""
        queries, test_only = self.config["queries"], TEST_ONLY in self.collection.facts
        remedy = "queries=test mines for its test queries, which then test nothing any more"
        refuse(test_only and queries not in ("test", "all"), f"has {TEST_ONLY}", self.collection.name, remedy)
        what = f"has no {queries} split: its queries are cross-validated"  # all of them would be taken for it
        refuse(
            not (queries in ("train", "all") or (queries == "test" and test_only) or (self.encoded.split >= 0).any()),
            what,
            self.collection.name,
            "queries=all mines for all of them",
        )

    def _check_promote(self) -> None:
        """Refuse positives by the scores of a function, which does not recognise relevant documents, and ids that the
        file of promoted documents can't hold.
        """
        if not self.config["promote"]:
            return
        remedy = "name a ranker that recognises relevant documents: guard.ranker=FOLDER guard.relative=0"
        refuse(self.guard.ranker is None, "no ranker says which documents are relevant", "promote", remedy)
        check_collection(self.collection, np.arange(len(self.collection.queries)))  # promoted.qrels is in TREC's form

    def _check_scores(self) -> None:
        """Refuse a column of scores for losses in which some are missing, or are not on one scale."""
        relevant = self.encoded.judgements.relevant()
        if not self.config["with_scores"] or self.config["scores"] == "ranker" or not len(relevant.documents):
            return
        query, document = relevant.rows()[:1], relevant.documents[:1, None]
        if len(self.functions) > 1:
            what = f"the scores of {' and '.join(self.names)} can't be compared with each other"
        elif self.functions[self.names[0]].own_scores(self.sources, query, document) is None:
            what = f"{self.names[0]} gives relevant documents no scores"
        else:
            return
        remedy = "choose scores=ranker checkpoint=…, or leave it out; ids/ has the scores of each function"
        raise BadInput(what, "with_scores", remedy)

    def _check_guard(self) -> None:
        """Refuse a guard of functions that rank nothing, or with a selector that bypasses it."""
        check_guards(self.config)
        what = f"{' and '.join(self.names)} has no ranked list whose documents could be dropped"
        refuse(
            self.guard.active and all(type(part).rank is RetrievalFunction.rank for part in self.functions.values()),
            what,
            "guard",
            "leave it out, or choose a function that ranks: bm25, dense, …",
        )

    def _check_count(self, sampler: Sampler) -> None:
        """Refuse more negatives than the list of a function, or the window in it, has documents."""
        if sampler.counts is None and len(self.functions) > 1:
            return  # the policy decides how many each function supplies
        for name, function in self.functions.items():
            count = sampler.count if sampler.counts is None else sampler.counts[name]
            selector = sampler.selectors.get(name, sampler.selector)
            depth = function.depth if isinstance(function, Ranked) else count
            if isinstance(selector, Window) and count > (size := selector.last - selector.first + 1):
                what = f"{count} negatives are asked of {name}, and its window has {counted(size, 'rank')}"
                raise BadInput(what, "selector.last", "raise it, or ask for fewer (count=)")
            what = f"{count} negatives are asked of {name}, and its list has {counted(depth, 'document')}"
            refuse(count > depth, what, f"function.{name}.depth", "raise it, or ask for fewer (count=)")

    def _function(self, name: str, node: dict[str, Any]) -> RetrievalFunction:
        function: RetrievalFunction = build(node, f"function.{name}", trust="composed")
        if not isinstance(function, Dense):
            return function
        if self.ranker is None:
            raise BadInput(
                "there is no ranker whose vectors could be searched", f"function.{name}", "give checkpoint=FOLDER"
            )
        checkpoint = self.config["checkpoint"]
        named = [checkpoint, self.config["ranker"], self.config["precision"]]
        kept = partial(self.sources.kept_vectors, [self.texts, named, files_of({"checkpoint": checkpoint})])
        return NearestDocuments(self.ranker, self.ranker_encoded, function.depth, function.index, kept)

    def _sampler(self, rng: np.random.Generator) -> Sampler:
        config = self.config
        policy, selector = (
            build(config["policy"], "policy", trust="composed"),
            build(config["selector"], "selector", trust="composed"),
        )
        selectors = build_each(config["selectors"], "selector", trust="composed")
        named = {f"selector.{name}": part for name, part in selectors.items()}
        for where, part in {"policy": policy, "selector": selector, **named}.items():
            learns = type(part).observe not in (SamplingPolicy.observe, Selector.observe)
            what = f"{type(part).__name__} {'learns' if learns else 'moves'} while a ranker is trained"
            refuse(
                learns or isinstance(part, Schedule), what, where, "choose one that does not: mining trains no ranker"
            )
        policy.set_functions(self.names)
        options = {"sampling": {"negatives": config["count"]}, "training": {"batch_size": config["batch"]}}
        counts = counts_of(config | options, self.functions, policy)
        return Sampler(policy, self.functions, selector, config["count"], rng, {}, selectors, counts)

    def _check_asked(self, sampler: Sampler) -> None:
        """Refuse a ranker that nothing asks."""
        nearest = any(isinstance(function, NearestDocuments) for function in self.functions.values())
        remedy = "choose scores=ranker, function=dense or a selector that reads scores; or leave it out"
        refuse(
            self.ranker is not None and sampler.foresees and not nearest,
            "nothing here asks the ranker",
            "checkpoint",
            remedy,
        )

    def _of_positives(
        self, queries: NDArray[np.integer], positives: NDArray[np.int32]
    ) -> tuple[NDArray[np.float32], int]:
        """Return float32 [e, functions], the positives' scores by each function, nan if it gives none, and the index of
        the first function that scores positives; 0 if none does.
        """
        scores = np.full((len(queries), len(self.functions)), np.nan, np.float32)
        first = 0
        for index, function in reversed([*enumerate(self.functions.values())]):
            own = function.own_scores(self.sources, queries, positives[:, None])
            if own is not None:
                scores[:, index], first = own[:, 0], index
        return scores, first

    def mine(self, shard: Shard) -> MinedShard:
        """Mine one shard. Its negatives depend neither on the process nor on the order of shards."""
        rng = np.random.default_rng([self.config["seed"], shard.number])
        queries, own = shard.queries, None
        examples = pairs_of(self.encoded.with_queries(queries), np.arange(len(queries)))
        if self.guard.per_row:  # one list per example, guarded by its positive
            queries, own = queries[examples.queries], examples.positives
            examples = Batch(np.arange(len(examples)), examples.positives)
        shard_encoded = self.encoded.with_queries(queries)
        lists: dict[str, GuardedLists] = {}
        for name, function in self.functions.items():
            lists[name] = negatives_lists(function, self.sources, self.guard, queries, own)
            function.prepare(shard_encoded, lists[name].lists)
        sampler, judged = self._sampler(rng), len(examples)
        judgements = shard_encoded.judgements
        if self.config["promote"]:
            of_guard = [lists[name].dropped for name, part in self.functions.items() if not isinstance(part, InBatch)]
            lowest = None if own is None else self.guard.ranker.own_scores(self.sources, queries, own[:, None])[:, 0]
            judgements, examples = promoted(judgements, examples, queries, of_guard, lowest)
        of_ranker_encoded = replace(self.ranker_encoded.with_queries(queries), judgements=judgements)
        training: Any = FrozenRanker(self.ranker, of_ranker_encoded)
        order = rng.permutation(len(examples))
        negatives = np.full((len(examples), sampler.count), -1, np.int32)
        scores = np.full((len(examples), 1 + sampler.count), np.nan, np.float32)
        functions = np.zeros(negatives.shape, np.int8)
        for start in range(0, len(order), self.config["batch"]):
            rows = order[start : start + self.config["batch"]]
            negatives[rows] = sampler.negatives(examples.take(rows), training)
            functions[rows] = sampler.assigned
            scores[rows, 1:] = sampler.source_scores
        if self.config["scores"] == "ranker":
            documents = np.concatenate([examples.positives[:, None], negatives], axis=1)
            of_ranker = training.score(examples.queries, documents)
            scores = np.where(documents >= 0, of_ranker, np.nan).astype(np.float32)
            of_positives = np.repeat(scores[:, :1], len(self.functions), axis=1)
            comparable = np.ones(scores.shape, bool)
        else:
            self._check_asked(sampler)
            of_positives, first = self._of_positives(queries[examples.queries], examples.positives)
            scores[:, 0] = of_positives[:, first]
            comparable = np.insert(functions == first, 0, True, axis=1)
        for every in (scores, of_positives):
            every[~np.isfinite(every)] = np.nan
        return MinedShard(
            queries[examples.queries],
            examples.positives,
            negatives,
            functions,
            _ranks(list(lists.values()), examples.queries, negatives, functions),
            scores,
            of_positives,
            comparable,
            guarded={name: guarded_lists.dropped for name, guarded_lists in lists.items()},
            lists=len(queries),
            fallback={name: stats.fallback for name, stats in sampler.stats.items()},
            promoted=len(examples) - judged,
        )


def promoted(
    judgements: Judgements,
    examples: Batch,
    queries: NDArray[np.integer],
    dropped: Sequence[GuardedDocuments],
    positives: NDArray[np.floating] | None = None,
) -> tuple[Judgements, Batch]:
    """Return judgements and examples with the documents that scored above the positive as relevant (RLHN).

    Such documents are false negatives, which become positives of their query (Thakur et al. 2025). A document that is
    judged keeps its grade. It takes the list of its query's row with the lowest positive, in which no document is above
    the limit that the guard has for it.

    Args:
        judgements: the judgements by row.
        queries: int [rows], ascending: the query of each row.
        dropped: what a guard has dropped for these queries.
        positives: float [rows], the score of each row's positive by the guard's ranker; None with one row per query.
    """
    above = [(part.queries[part.reasons == 0], part.documents[part.reasons == 0]) for part in dropped]
    asked, documents = (np.concatenate([pair[column] for pair in above]) for column in (0, 1))
    firsts, ends = np.searchsorted(queries, asked), np.searchsorted(queries, asked, side="right")
    counts = ends - firsts  # a query has several rows if each is guarded by a different positive
    rows = np.repeat(firsts, counts) + np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    changed = judgements.with_relevant(rows, np.repeat(documents, counts))
    order = np.lexsort((np.zeros(len(queries)) if positives is None else positives, queries))  # rows stay with a query
    new = np.unique(np.stack([order[firsts], documents]), axis=1)
    # A grade of −1 is in TREC's pool and not judged.
    unjudged = judgements.lookup(new[0], new[1][:, None], unjudged=-1)[:, 0] == -1
    more = new[:, unjudged]
    every = np.concatenate([examples.positives, more[1].astype(np.int32)])
    return changed, Batch(np.concatenate([examples.queries, more[0]]), every)


def _ranks(
    lists: list[GuardedLists], rows: NDArray[np.int64], negatives: NDArray[np.int32], functions: NDArray[np.int8]
) -> NDArray[np.int32]:
    """Return the rank of each negative in its function's unguarded list, from 1; 0 if that function has no list."""
    ranks = np.zeros(negatives.shape, np.int32)
    for index, guarded_lists in enumerate(lists):
        if guarded_lists.lists is None:
            continue
        documents = guarded_lists.lists.documents[rows]
        for column in range(negatives.shape[1]):
            match = (documents == negatives[:, column, None]) & (negatives[:, column, None] >= 0)
            listed = match.any(axis=1) & (functions[:, column] == index)
            ranks[listed, column] = guarded_lists.ranks[rows[listed], match[listed].argmax(axis=1)]
    return ranks


class NearestDocuments(Ranked):
    """The nearest documents by the vectors of a fixed ranker: `function=dense` without training.

    Args:
        kept: returns the documents' vectors, which are made by its argument unless the cache has them.
    """

    def __init__(
        self,
        ranker: Ranker,
        encoded: EncodedCollection,
        depth: int,
        index: IndexOptions,
        kept: Callable[[Callable[[], Floats]], Floats],
    ) -> None:
        super().__init__(depth=depth)
        if not isinstance(ranker, DenseRanker):
            what = f"{type(ranker).__name__} gives texts no vectors that an index could search"
            raise BadInput(what, "function=dense", "name a bi-encoder or a static ranker by checkpoint=FOLDER")
        self.ranker, self.encoded = ranker, encoded
        every = np.arange(len(encoded.documents))
        self.index: VectorIndex | SparseIndex
        if ranker.sparse:
            self.index = SparseIndex(embed_sparse(ranker, encoded.documents, every))
        else:
            index.check(ranker.dimension)  # before all documents are read
            self.index = VectorIndex.build(kept(partial(embed, ranker, encoded.documents, every)), index)

    def search(self, sources: Sources, queries: NDArray[np.integer], depth: int) -> RankedLists:
        documents, products = self.index.search(self._vectors(queries), depth)
        return RankedLists(documents, products * np.float32(self.ranker.scale))

    def own_scores(
        self, sources: Sources, queries: NDArray[np.integer], documents: NDArray[np.integer]
    ) -> NDArray[np.float32]:
        return self.index.scores(self._vectors(queries), documents) * np.float32(self.ranker.scale)

    def _vectors(self, queries: NDArray[np.integer]) -> Any:
        read = embed_sparse if self.ranker.sparse else embed
        return read(self.ranker, self.encoded.queries, np.asarray(queries), queries=True)


M_MMAP_THRESHOLD = -3
"""Number of the option in malloc.h."""
THRESHOLD = 128 << 10
"""Size in bytes from which glibc maps blocks separately, until it raises it."""


def give_back() -> bool:
    """Fix the size from which glibc maps blocks separately; return False with other C libraries, which need no help.

    glibc raises this size, up to 32 MiB, each time a large block is freed. Later blocks below it come from the heap,
    and stay there if a small block follows them. Mining frees one matrix after another and keeps small results of
    each, which left a twentieth of its memory unused.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    return bool(ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, THRESHOLD))
