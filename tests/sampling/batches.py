"""Batches of queries, and functions with lists by hand, for tests that look at functions and selectors alone."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.ranked_lists import stack_lists
from pyrite.ranking.training import Batch, RankerTraining
from pyrite.sampling.retrieval.bm25 import BM25
from pyrite.sampling.sampler import Sampler


def batch_of(*queries: int | NDArray[np.integer]) -> Batch:
    """A batch of these queries, or of an array of them, whose positives nobody asks for."""
    asked = np.concatenate([np.atleast_1d(np.asarray(query, np.int64)) for query in queries])
    return Batch(asked, np.zeros(len(asked), np.int32))


def listed(lists: Sequence[Sequence[int]], depth: int = 0, encoded: EncodedCollection | None = None) -> BM25:
    """BM25 with a list of documents for each query, scored 0, −1, −2 and so on."""
    pairs = [(np.array(documents, int), -np.arange(len(documents), dtype=float)) for documents in lists]
    function = BM25()
    function.prepare(encoded, stack_lists(pairs, depth or max(map(len, lists))))
    return function


def prepared(function: Any, encoded: EncodedCollection) -> Any:
    """A function without lists, ready for a collection."""
    function.prepare(encoded, None)
    return function


def steps(source: Sampler, training: RankerTraining, count: int) -> list[list[list[int]]]:
    """What some updates were shown, held to what every sampler promises."""
    shown, judgements = [], training.encoded.judgements
    for _ in range(count):
        batch = training.next_batch()
        negatives = source.negatives(batch, training)
        assert negatives.shape == (len(batch), source.count)
        assert negatives.dtype == np.int32
        assert not judgements.are_relevant(batch.queries, negatives).any()
        for row in negatives.tolist():
            there = [document for document in row if document >= 0]
            assert len(there) == len(set(there))
        source.observe(negatives, training.update(batch, negatives))
        shown.append(negatives.tolist())
        if training.epoch_over:
            training.validate()
    return shown
