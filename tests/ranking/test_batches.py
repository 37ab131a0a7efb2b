"""Who stands together in a batch."""

from dataclasses import replace

import numpy as np
import pytest

from pyrite.ranking.batch import Batch
from pyrite.ranking.batches.distinct import Distinct
from pyrite.ranking.batches.grouped import ByCategory, TopicBalanced
from pyrite.ranking.batches.order import Shuffled
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.errors import BadInput
from pyrite.ranking.vectors import WordVectors


def examples(count: int) -> Batch:
    return Batch(np.arange(count), np.zeros(count, np.int32))


def labelled(encoded: EncodedCollection, labels: list[list[int]]) -> EncodedCollection:
    return replace(encoded, queries=replace(encoded.queries, labels=np.array(labels, np.int32)))


@pytest.fixture
def encoded(encoded_of) -> EncodedCollection:
    return encoded_of([[1]], [[1 + q % 3, 4 + q % 3] for q in range(20)], {})


def no_vectors(words: int = 7) -> WordVectors:
    return WordVectors(np.zeros((words, 2), np.float32), np.zeros(words, bool))


def test_random_batches_are_what_the_generator_gives():
    """The permutation and nothing else: numbers are those of a training without this part."""
    found = Shuffled().order(examples(9), 4, np.random.default_rng(3))
    assert found.tolist() == np.random.default_rng(3).permutation(9).tolist()


def test_a_category_fills_batches_of_its_own(encoded):
    categories = [0] * 9 + [1] * 6 + [-1] * 5
    order = ByCategory()
    order.prepare(labelled(encoded, [[c, 0] for c in categories]), no_vectors(), np.arange(20))
    seen = set()
    for seed in range(5):
        found = order.order(examples(20), 4, np.random.default_rng(seed))
        assert sorted(found.tolist()) == list(range(20))
        groups = [{categories[place] for place in found[start : start + 4]} for start in range(0, 20, 4)]
        # Two batches of nine, one of six and one of five are of one category; the rest makes one of what is left.
        assert sorted(map(len, groups)) == [1, 1, 1, 1, 3]
        seen.add(tuple(found.tolist()))
    assert len(seen) == 5


def test_a_subcategory_is_told_by_both_labels(encoded):
    order = ByCategory("subcategory")
    order.prepare(labelled(encoded, [[q // 10, q % 2] for q in range(20)]), no_vectors(), np.arange(20))
    assert len(set(order.groups.tolist())) == 4


def test_topics_are_clusters_of_the_queries(encoded):
    """Three kinds of queries with no word in common, words without vectors."""
    order = TopicBalanced(clusters=3)
    order.prepare(encoded, no_vectors(), np.arange(18))
    assert [len(set(order.groups[kind:18:3].tolist())) for kind in range(3)] == [1, 1, 1]
    assert len(set(order.groups[:18].tolist())) == 3
    assert order.groups[18:].tolist() == [-1, -1]
    found = order.order(examples(18), 6, np.random.default_rng(0))
    assert [len({place % 3 for place in found[start : start + 6].tolist()}) for start in (0, 6, 12)] == [1, 1, 1]
    assert found.tolist() == order.order(examples(18), 6, np.random.default_rng(0)).tolist()


def test_fewer_examples_than_a_batch(encoded):
    order = TopicBalanced(clusters=2)
    order.prepare(encoded, no_vectors(), np.arange(20))
    assert sorted(order.order(examples(3), 8, np.random.default_rng(0)).tolist()) == [0, 1, 2]


def test_a_collection_without_categories_is_refused(encoded):
    with pytest.raises(BadInput, match="no categories"):
        ByCategory().prepare(encoded, no_vectors(), np.arange(20))


def test_a_batch_can_not_be_changed():
    queries = np.arange(3)
    batch = Batch(queries, np.arange(3, dtype=np.int32), mined=np.zeros((3, 1), np.int32))
    for part in (batch, batch.take(np.array([1])), batch.part(np.array([0, 2]))):
        for values in (part.queries, part.positives):
            with pytest.raises(ValueError, match="read-only"):
                values[0] = 1
    queries[0] = 7  # that of the caller still can


def test_distinct_batches_repeat_no_query_while_they_can():
    queries = np.array([0] * 5 + [1] * 3 + [2] * 2 + [3, 4, 5, 6, 7])
    examples = Batch(queries, np.arange(len(queries), dtype=np.int32))
    order = Distinct().order(examples, 3, np.random.default_rng(1))
    assert sorted(order.tolist()) == list(range(15))
    for start in range(0, 15, 3):
        assert len(set(queries[order[start : start + 3]].tolist())) == 3
    same, other = (Distinct().order(examples, 3, np.random.default_rng(seed)) for seed in (1, 2))
    assert (order == same).all()
    assert (order != other).any()
    alone = Batch(np.zeros(7, np.int64), np.arange(7, dtype=np.int32))
    assert sorted(Distinct().order(alone, 3, np.random.default_rng(1)).tolist()) == list(range(7))
