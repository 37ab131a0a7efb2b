"""Holds a collection in every form that retrieval systems read, each made when a system first asks for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pyrite.pooling.systems.models import latent_semantics, relevance_model
from pyrite.pooling.systems.term_index import Scores, TermIndex, character_grams, counts_of, pair_counts
from pyrite.ranking.bm25 import Bm25Options
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.mean_vectors import MeanVectorIndex
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.ranking.sources import Sources
from pyrite.ranking.splits import Split
from pyrite.ranking.terms import TermNumbers
from pyrite.ranking.vectors import PackagedGlove, WordVectors

Terms = list[NDArray[np.int32]]

_LEAD = 20  # terms of a document that count as its lead
_CHARACTERS = 5  # of a sequence within words
_DIMENSIONS = 100
_MU = 1000.0

Rerank = Callable[["SystemInputs", RankedLists, Sequence[str]], NDArray[np.float32]]
"""Scores [topics, depth] of lists by a ranker that overrides describe, trained on the inputs' split. The caller
supplies it: this package does not know sampling.
"""


@dataclass
class SystemInputs:
    """A collection in every form that systems read, each made when a system first asks for it.

    Args:
        encoded: the same as token ids.
        vocabulary: the word of each token id.
        split: the queries to train and validate with, and as `test` the topics to rank for.
        depth: documents that a system ranks for a topic.
        rerank: trains a ranker and scores a list again; None if no system can ask for one.
        lists: the lists of earlier systems, for those that build on others: one row per topic.
    """

    collection: Collection
    encoded: EncodedCollection
    vocabulary: list[str]
    split: Split
    depth: int
    rerank: Rerank | None = None
    lists: dict[str, RankedLists] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int]:
        """Topics and documents."""
        return len(self.split.test), len(self.collection.documents)

    @cached_property
    def stems(self) -> TermIndex:
        """Stemmed terms without stop words."""
        return _index(*self._stemmed)

    @cached_property
    def lead(self) -> TermIndex:
        """The stems that a document begins with."""
        documents, topics, terms = self._stemmed
        return _index([text[:_LEAD] for text in documents], topics, terms)

    @cached_property
    def words(self) -> TermIndex:
        """Words without any change, all of them."""
        return _index(*self._unstemmed)

    @cached_property
    def grams(self) -> TermIndex:
        """The sequences of five characters within words."""
        return character_grams(self.words, self._unstemmed[2], _CHARACTERS)

    @cached_property
    def pairs(self) -> TermIndex:
        """Pairs of adjacent stems."""
        documents, topics, _ = self._stemmed
        return TermIndex(*pair_counts(documents, topics), self.stems.lengths)

    @cached_property
    def expanded(self) -> TermIndex:
        """Stems, with topics expanded from their best documents."""
        return relevance_model(self.stems, _MU)

    @cached_property
    def semantics(self) -> tuple[Scores, Scores]:
        """Documents and topics in the space of latent semantics, the strongest dimension first."""
        return latent_semantics(self.stems, _DIMENSIONS, np.random.default_rng(0))

    @cached_property
    def vectors(self) -> WordVectors:
        """GloVe's word vectors; none for any word if the package is not installed."""
        return PackagedGlove().read(self.vocabulary)

    @cached_property
    def sources(self) -> Sources:
        """The inputs of the project's retrieval functions."""
        return Sources(self.collection, self.encoded, self.vectors)

    def bag_of_vectors(self) -> Scores:
        """Compute the cosine of mean word vectors, weighted by idf, exactly, by faiss."""
        topics = replace(self.encoded, queries=self.encoded.queries.take(self.split.test))
        index = MeanVectorIndex(Sources(self.collection, topics, self.vectors), "bag of vectors")
        return self.spread(index.search(topics.queries, self.depth))

    def rescored(self, first: str, overrides: Sequence[str]) -> RankedLists:
        """Return earlier lists with the scores of a ranker that is trained for it, not yet in their order.

        Args:
            first: the system that made the lists.
            overrides: the ranker and its training, as in `pyrite train`; negatives are from `function=bm25` or
                `random`.
        """
        if self.rerank is None:
            raise BadInput("needs a ranker, and nothing here trains one", remedy="give rerank=")
        lists = self.made(first)
        return RankedLists(lists.documents, self.rerank(self, lists, overrides))

    def made(self, name: str) -> RankedLists:
        """Return the list of an earlier system; raise `BadInput` if it was left out."""
        refuse(name not in self.lists, f"builds on {name}, which was left out")
        return self.lists[name]

    def spread(self, lists: RankedLists) -> Scores:
        """Spread the scores of lists, one row per topic, over all documents."""
        scores = np.full(self.shape, -np.inf)
        topic, place = np.nonzero(lists.documents >= 0)
        scores[topic, lists.documents[topic, place]] = lists.scores[topic, place]
        return scores

    @cached_property
    def _stemmed(self) -> tuple[Terms, Terms, list[str]]:
        return self._read(Bm25Options())

    @cached_property
    def _unstemmed(self) -> tuple[Terms, Terms, list[str]]:
        return self._read(Bm25Options(stemming=None, stop_words=False))

    def _read(self, options: Bm25Options) -> tuple[Terms, Terms, list[str]]:
        """Return term ids of the documents and topics, and the terms; a topic's terms that no document holds are left
        out.
        """
        documents, queries = self.collection.documents, self.collection.queries
        reader = TermNumbers(options.of(self.collection))
        texts, learned = reader.tokenize(documents), list(reader.terms)
        topics = [topic[topic < len(learned)] for topic in reader.tokenize(queries[self.split.test])]
        # Terms are learned in no particular order. Sorted, sums are the same to the last bit.
        order = sorted(range(len(learned)), key=learned.__getitem__)
        place = np.argsort(order).astype(np.int32)
        return [place[text] for text in texts], [place[topic] for topic in topics], [learned[term] for term in order]


def _index(documents: Terms, topics: Terms, terms: list[str]) -> TermIndex:
    lengths = np.array([len(text) for text in documents], np.float64)
    return TermIndex(counts_of(documents, len(terms)), counts_of(topics, len(terms)), lengths)
