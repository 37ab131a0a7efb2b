"""Negatives that a batch shares."""

import numpy as np
import pytest

from ranking.training import RankerTraining
from sampling.filtered import FilteredFunction
from sampling.relevant_pairs import RelevantPairs
from sampling.retrieval.random import RandomFunction
from sampling.selection.shared import Shared


def offered(training: RankerTraining, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    function = RandomFunction()
    function.prepare(training.encoded, None)
    batch = training.next_batch()
    pairs = RelevantPairs(training.encoded)
    documents = (
        Shared()
        .select(batch, FilteredFunction(function, pairs), count, training, np.random.default_rng(seed))
        .documents
    )
    return batch.queries, documents


@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_all_queries_are_shown_the_same_but_for_what_is_relevant(count, tiny_training):
    training = tiny_training()
    relevant = training.encoded.judgements.relevant()
    for seed in range(20):
        queries, documents = offered(training, count, seed)
        assert documents.shape == (len(queries), count)
        pool = {int(d) for d in documents.ravel() if d >= 0}
        for query, row in zip(queries, documents, strict=True):
            own = set(relevant.of(query)[0].tolist())
            assert {int(d) for d in row if d >= 0} == pool - own
            assert len(set(row[row >= 0])) == (row >= 0).sum()


def test_more_than_there_are_and_the_same_again(tiny_training):
    training = tiny_training()
    _, documents = offered(training, 100)
    assert documents.shape[1] <= 12
    assert (documents >= 0).any(axis=1).all()
    np.testing.assert_array_equal(documents, offered(training, 100)[1])
