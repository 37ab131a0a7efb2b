"""Mines one shard of queries after the other: finds lists, guards them, and has a sampler pick negatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster.config.build import build
from cluster.config.counts import counts_of
from cluster.config.texts import texts_config
from cluster.mining.freed_memory import give_back
from cluster.mining.nearest import Nearest
from cluster.mining.shards import Shard
from cluster.runs.artifacts import Artifacts
from cluster.runs.parts import Base
from cluster.runs.trained import read_ranker
from ranking.batch import pairs_of
from ranking.errors import BadInput
from ranking.frozen import FrozenRanker
from ranking.ranked_lists import RankedLists
from ranking.sources import Sources
from sampling.guard import negatives_lists
from sampling.guarded_documents import GuardedDocuments
from sampling.policies.policy import SamplingPolicy
from sampling.retrieval.dense import Dense
from sampling.retrieval.function import RetrievalFunction
from sampling.sampler import Sampler
from sampling.selection.selector import Selector


@dataclass(frozen=True)
class Mined:
    """The negatives of a shard: a row an example, which is a query with one of its relevant documents.

    Args:
        queries, positives: int [e], indices in the collection.
        negatives: int32 [e, n], −1 where there were too few.
        functions: int8 [e, n], which function each is from.
        ranks: int32 [e, n], from 1, in the function's list without relevant and guarded documents; 0 where it has none.
        scores: float32 [e, 1 + n], of the positive and the negatives: the function's, or the ranker's; nan for none.
        guarded: what the guard dropped, by function.
    """

    queries: NDArray[np.int64]
    positives: NDArray[np.int32]
    negatives: NDArray[np.int32]
    functions: NDArray[np.int8]
    ranks: NDArray[np.int32]
    scores: NDArray[np.float32]
    guarded: dict[str, GuardedDocuments]


class Miner:
    """Opens all that mining needs, from the configuration: on whatever machine it is made.

    Args:
        config: conf/mine.yaml, composed.
        artifacts: reads and caches collection and texts.

    Raises:
        BadInput: where parts don't go together.
    """

    def __init__(self, config: dict[str, Any], artifacts: Artifacts | None = None) -> None:
        give_back()  # on whatever machine
        artifacts = artifacts or Artifacts()
        run = texts_config(config)
        self.config, self.collection, base = config, artifacts.collection(run), artifacts.part(run, "base")
        assert isinstance(base, Base)
        self.encoded = base.encoded
        self.sources = Sources(self.collection, base.encoded, base.vectors)
        self.guard = build(config["guard"], "guard")
        self.ranker, self.read = None, base.encoded
        if config["checkpoint"]:
            trained = read_ranker(config["checkpoint"], config["ranker"])
            self.ranker, self.read = trained.ranker, trained.read(self.collection, base.encoded)
        if config["scores"] == "ranker" and self.ranker is None:
            raise BadInput("there is no ranker to score with", "scores=ranker", "name one by checkpoint=")
        self.functions = {name: self._function(name, node) for name, node in config["function"].items()}
        self.names = list(self.functions)
        self._sampler(np.random.default_rng(0))  # refuses what can't be chosen by, before anything is mined

    def _function(self, name: str, node: dict[str, Any]) -> RetrievalFunction:
        function: RetrievalFunction = build(node, f"function.{name}")
        if not isinstance(function, Dense):
            return function
        if self.ranker is None:
            raise BadInput("there is no ranker whose vectors could be searched", f"function.{name}", "give checkpoint=")
        return Nearest(self.ranker, self.read, function.depth, function.index)

    def _sampler(self, rng: np.random.Generator) -> Sampler:
        config = self.config
        policy, selector = build(config["policy"], "policy"), build(config["selector"], "selector")
        selectors = {name: build(node, f"selector.{name}") for name, node in config["selectors"].items()}
        learns = type(policy).observe is not SamplingPolicy.observe
        for part in [selector, *selectors.values()]:
            learns |= type(part).observe is not Selector.observe
        if learns:
            what = f"{type(policy).__name__} or {type(selector).__name__} learns while a ranker is trained"
            raise BadInput(what, "policy and selector", "choose one that does not: mining trains no ranker")
        policy.set_functions(self.names)
        asked = {"sampling": {"negatives": config["count"]}, "training": {"batch_size": config["batch"]}}
        counts = counts_of(config | asked, self.functions, policy)
        return Sampler(policy, self.functions, selector, config["count"], rng, {}, selectors, counts)

    def mine(self, shard: Shard) -> Mined:
        """The negatives of a shard, the same wherever and in whatever order shards are mined."""
        rng = np.random.default_rng([self.config["seed"], shard.number])
        queries = shard.queries
        inner = self.encoded.with_queries(queries)
        lists: list[RankedLists | None] = []
        guarded = {}
        for name, function in self.functions.items():
            found, guarded[name] = negatives_lists(function, self.sources, self.guard, queries)
            function.prepare(inner, found)
            lists.append(found)
        sampler = self._sampler(rng)
        count, batch_size = sampler.count, self.config["batch"]
        training: Any = FrozenRanker(self.ranker, self.read.with_queries(queries))
        examples = pairs_of(inner, np.arange(len(queries)))
        order = rng.permutation(len(examples))
        negatives = np.full((len(examples), count), -1, np.int32)
        scores = np.full((len(examples), 1 + count), np.nan, np.float32)
        functions = np.zeros(negatives.shape, np.int8)
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            batch = examples.take(rows)
            negatives[rows] = sampler.negatives(batch, training)
            functions[rows] = sampler.assigned
            scores[rows, 1:] = sampler.source_scores
        if self.config["scores"] == "ranker":
            shown = np.concatenate([examples.positives[:, None], negatives], axis=1)
            scores = np.where(shown >= 0, training.score(examples.queries, shown), np.nan).astype(np.float32)
        else:
            scores[:, 0] = self._of_positives(queries, examples.queries, examples.positives)
        ranks = _ranks(lists, examples.queries, negatives, functions)
        scores[~np.isfinite(scores)] = np.nan
        return Mined(queries[examples.queries], examples.positives, negatives, functions, ranks, scores, guarded)

    def _of_positives(
        self, shard: NDArray[np.int64], rows: NDArray[np.int64], positives: NDArray[np.int32]
    ) -> NDArray[np.float32]:
        """The score of each positive by the first function that has scores; nan where it has none, or there is none."""
        asked = (each.own_scores(self.sources, shard[rows], positives[:, None]) for each in self.functions.values())
        found = next((scores for scores in asked if scores is not None), None)
        return np.full(len(rows), np.nan, np.float32) if found is None else found[:, 0]


def _ranks(
    lists: list[RankedLists | None],
    rows: NDArray[np.int64],
    negatives: NDArray[np.int32],
    functions: NDArray[np.int8],
) -> NDArray[np.int32]:
    """Where each negative stands in its function's list, from 1; 0 where that function has no lists."""
    ranks = np.zeros(negatives.shape, np.int32)
    for index, found in enumerate(lists):
        if found is None:
            continue
        own = found.documents[rows]
        for column in range(negatives.shape[1]):
            match = (own == negatives[:, column, None]) & (negatives[:, column, None] >= 0)
            there = match.any(axis=1) & (functions[:, column] == index)
            ranks[there, column] = 1 + match[there].argmax(axis=1)
    return ranks
