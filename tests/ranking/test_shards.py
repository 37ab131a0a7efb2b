"""Vectors in shards: the same lists, whatever their number."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranking.index import IndexOptions, VectorIndex
from ranking.query_lists import Listed, QueryLists
from ranking.ranges import merge, shard_ranges
from ranking.shards import ShardedIndex


def test_shards_are_whole_blocks():
    assert shard_ranges(25, 2, 10) == [range(10), range(10, 25)]
    assert shard_ranges(25, 9, 10) == [range(10), range(10, 20), range(20, 25)]  # no more shards than blocks
    assert shard_ranges(0, 3, 10) == [range(0)]


@given(st.integers(0, 500), st.integers(1, 9), st.integers(1, 50))
def test_every_document_is_in_one_shard(documents, shards, block):
    ranges = shard_ranges(documents, shards, block)
    assert [document for held in ranges for document in held] == list(range(documents))
    assert all(held.start % block == 0 for held in ranges)
    assert max(map(len, ranges)) - min(map(len, ranges)) <= 2 * block


def test_ties_stand_in_the_order_of_documents():
    first = np.array([[1, 0]], np.int32), np.array([[2.0, 1.0]])
    second = np.array([[0, -1]], np.int32), np.array([[2.0, -np.inf]])
    documents, products = merge([second, first], [range(5, 7), range(5)], 4)
    assert documents.tolist() == [[1, 5, 0, -1]]
    assert products.tolist() == [[2.0, 2.0, 1.0, -np.inf]]


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    """Each of 3,000 vectors twice over, far apart, so that there are ties between shards."""
    drawn = np.random.default_rng(3).standard_normal((3000, 7)).astype(np.float32)
    return np.concatenate([drawn, drawn, drawn])


@pytest.mark.by_day(2)
@pytest.mark.parametrize("shards", [2, 3])
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_what_is_found_does_not_depend_on_shards(vectors, shards, precision):
    kept = vectors.astype(precision)
    whole, parts = VectorIndex.build(kept, IndexOptions()), ShardedIndex.build(kept, IndexOptions(), shards)
    assert len(parts.shards) == shards
    queries = np.random.default_rng(4).standard_normal((20, 7)).astype(np.float32)
    for depth in (0, 1, 50, 9000):
        for left, right in zip(whole.search(queries, depth), parts.search(queries, depth), strict=True):
            assert left.tobytes() == right.tobytes()
    asked = np.random.default_rng(5).integers(-1, 9000, (20, 40))
    assert whole.scores(queries, asked).tobytes() == parts.scores(queries, asked).tobytes()
    assert (parts.scores(queries, asked) == -np.inf).sum() == (asked == -1).sum()


def test_lists_hold_what_a_search_would_find(vectors, tmp_path):
    index = ShardedIndex.build(vectors, IndexOptions(), 3)
    queries = np.random.default_rng(6).standard_normal((30, 7)).astype(np.float32)
    lists = QueryLists.search(index, queries, Listed(np.array([2, 3, 17, 29]), 40))
    asked = np.array([29, 2, 2])
    for found in (lists, opened_again(lists, tmp_path)):
        for left, right in zip(found.of(asked, 25) or (), index.search(queries[asked], 25), strict=True):
            assert left.tobytes() == right.tobytes()
        assert found.of(np.array([2, 4]), 5) is None  # not all of them are there
        assert found.of(np.array([2]), 41) is None
        assert found.of(np.array([30]), 1) is None


def opened_again(lists: QueryLists, folder: Path) -> QueryLists:
    assert QueryLists.opened(folder) is None
    lists.save(folder)
    found = QueryLists.opened(folder)
    assert found is not None
    return found
