"""What the systems of a made-up pool rank with: a collection in every form that they read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cluster.config.compose import compose
from cluster.pools.index import Index, Scores, character_grams, counts_of, pair_counts
from cluster.pools.models import latent_semantics, relevance_model
from cluster.runs.artifacts import Base, Lists
from cluster.runs.execute import assemble
from ranking.bm25 import Bm25, Bm25Options
from ranking.collections.collection import Collection
from ranking.encoding import EncodedCollection
from ranking.errors import BadInput
from ranking.evaluation.origins import Bm25Candidates, Candidates
from ranking.ranked_lists import RankedLists
from ranking.scoring import score_candidates
from ranking.sources import Sources
from ranking.splits import Split
from ranking.vectors import PackagedGlove, WordVectors
from sampling.guard import GuardedDocuments
from sampling.retrieval.tfidf import TfIdf

Terms = list[NDArray[np.int32]]

_LEAD = 20  # terms of a document that count as its lead
_DIMENSIONS = 100
_MU = 1000.0


@dataclass
class Bench:
    """A collection in every form that systems read, each made when a system first asks for it.

    Args:
        collection: what is ranked.
        encoded: the same as token ids.
        vocabulary: the word of each token id.
        split: the queries to train and validate with, and as `test` the topics to rank for.
        depth: documents that a system ranks for a topic.
        lists: what the systems have ranked so far, for those that build on others: a row a topic.
    """

    collection: Collection
    encoded: EncodedCollection
    vocabulary: list[str]
    split: Split
    depth: int
    lists: dict[str, RankedLists] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int]:
        """Topics and documents."""
        return len(self.split.test), len(self.collection.documents)

    @cached_property
    def stems(self) -> Index:
        """Stemmed terms without stop words."""
        return _index(*self._stemmed)

    @cached_property
    def lead(self) -> Index:
        """The stems that a document begins with."""
        documents, topics, terms = self._stemmed
        return _index([text[:_LEAD] for text in documents], topics, terms)

    @cached_property
    def words(self) -> Index:
        """Words as they stand, all of them."""
        return _index(*self._unstemmed)

    def grams(self, n: int) -> Index:
        """The n characters in a row that words have."""
        return character_grams(self.words, self._unstemmed[2], n)

    @cached_property
    def pairs(self) -> Index:
        """Two stems side by side."""
        documents, topics, _ = self._stemmed
        return Index(*pair_counts(documents, topics), self.stems.lengths)

    @cached_property
    def expanded(self) -> Index:
        """Stems, with topics expanded from their best documents."""
        return relevance_model(self.stems, _MU)

    @cached_property
    def semantics(self) -> tuple[Scores, Scores]:
        """Documents and topics in the space of latent semantics, the strongest dimension first."""
        return latent_semantics(self.stems, _DIMENSIONS, np.random.default_rng(0))

    @cached_property
    def vectors(self) -> WordVectors:
        """GloVe's word vectors; none of any word where the package is not installed."""
        return PackagedGlove().read(self.vocabulary)

    @cached_property
    def sources(self) -> Sources:
        """What the project's own retrieval functions take."""
        return Sources(self.collection, self.encoded, self.vectors)

    def bag_of_vectors(self, idf: bool) -> Scores:
        """Cosine of mean word vectors, exact, by faiss.

        Raises:
            BadInput: where faiss or the word vectors are not installed.
        """
        topics = replace(self.encoded, queries=self.encoded.queries.take(self.split.test))
        if not idf:
            topics = replace(topics, idf=np.ones_like(topics.idf))
        return self.spread(TfIdf(self.depth).rank(Sources(self.collection, topics, self.vectors)))

    def reranked(self, first: str, overrides: list[str]) -> Scores:
        """A list that was made before, re-ranked by a ranker trained here and now.

        Args:
            first: the system that made the list.
            overrides: the ranker and its training, as in `pyrite train`; negatives are of `function=bm25` or `random`.

        Raises:
            BadInput: where the collection has nothing to train on or to validate with.
        """
        lists = self.made(first)
        config = compose(["seed=0", "policy=fixed", "selector=uniform", *overrides])
        parts: dict[str, Any] = {"base": Base(self.encoded, self.vectors, [self.split]), "validation": self._validation}
        parts |= {
            f"function:{name}": Lists(self._negatives if name == "bm25" else None, GuardedDocuments.joined([]))
            for name in config["function"]
        }
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # the sums of several threads differ in their last bits
        try:
            training, sampler = assemble(config, parts, 0)
            training.fit(sampler)
            scores = score_candidates(training.ranker, self.encoded, self.split.test, lists.documents)
        finally:
            torch.set_num_threads(threads)
        return self.spread(RankedLists(lists.documents, scores))

    def made(self, name: str) -> RankedLists:
        """What a system has ranked.

        Raises:
            BadInput: where it was left out.
        """
        if name not in self.lists:
            raise BadInput(f"builds on {name}, which was left out")
        return self.lists[name]

    def spread(self, lists: RankedLists) -> Scores:
        """The scores of lists, a row a topic, among all documents."""
        scores = np.full(self.shape, -np.inf)
        topic, place = np.nonzero(lists.documents >= 0)
        scores[topic, lists.documents[topic, place]] = lists.scores[topic, place]
        return scores

    @cached_property
    def _validation(self) -> Candidates:
        return Bm25Candidates(self.depth).candidates(self.sources, self.split.dev)

    @cached_property
    def _negatives(self) -> RankedLists:
        """BM25's lists of the queries to train with, all others empty."""
        found, _ = self.sources.bm25(Bm25Options()).search(self.split.train, self.depth)
        shape = (len(self.encoded.queries), self.depth)
        lists = RankedLists(np.full(shape, -1, np.int32), np.full(shape, -np.inf, np.float32))
        lists.documents[self.split.train], lists.scores[self.split.train] = found.documents, found.scores
        return lists.without_relevant(self.encoded.judgements)

    @cached_property
    def _stemmed(self) -> tuple[Terms, Terms, list[str]]:
        return self._read(Bm25Options())

    @cached_property
    def _unstemmed(self) -> tuple[Terms, Terms, list[str]]:
        return self._read(Bm25Options(stemming=None, stop_words=False))

    def _read(self, options: Bm25Options) -> tuple[Terms, Terms, list[str]]:
        """Term ids of the documents and topics, and the terms; a topic's terms that no document holds are left out."""
        documents, queries = self.collection.documents, self.collection.queries
        # An index of nothing, for the sake of how it reads.
        reader = Bm25(replace(self.collection, documents=documents.head(0), queries=queries.head(0)), options)
        texts, learned = reader.tokenize(documents), list(reader.terms)
        topics = [topic[topic < len(learned)] for topic in reader.tokenize(queries[self.split.test])]
        # Terms are learned in no particular order. In theirs, sums come out the same to the last bit.
        order = sorted(range(len(learned)), key=learned.__getitem__)
        place = np.argsort(order).astype(np.int32)
        return [place[text] for text in texts], [place[topic] for topic in topics], [learned[term] for term in order]


def _index(documents: Terms, topics: Terms, terms: list[str]) -> Index:
    lengths = np.array([len(text) for text in documents], np.float64)
    return Index(counts_of(documents, len(terms)), counts_of(topics, len(terms)), lengths)
