"""Tests the search of vectors of which many are equal."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrite.ranking import alike_vectors
from pyrite.ranking.alike_vectors import AlikeVectors
from pyrite.ranking.index import IndexOptions, VectorIndex
from pyrite.ranking.inner_products import inner_products


@given(
    st.integers(0, 2**32 - 1), st.integers(1, 90), st.integers(1, 40), st.integers(1, 50),
    st.sampled_from(["float32", "float16"]),
)  # fmt: skip
def test_lists_are_those_of_every_row_by_itself(seed, count, distinct, depth, precision):
    rng = np.random.default_rng(seed)
    # Small whole numbers, so that different vectors tie too.
    vectors = rng.integers(-1, 2, (distinct, 3)).astype(precision)[rng.integers(0, distinct, count)]
    queries = rng.integers(-1, 2, (4, 3)).astype(np.float32)
    rows, products = VectorIndex.build(vectors, IndexOptions(precision=precision)).topk(queries, depth)
    every = np.broadcast_to(np.arange(count), (4, count))
    expected = inner_products(queries, vectors.astype(np.float32), every)
    order = np.lexsort((every, -expected), axis=1)[:, :depth]
    assert rows[:, :count].tolist() == order.tolist()
    assert products[:, :count].tolist() == np.take_along_axis(expected, order, 1).tolist()
    assert (rows[:, count:] == -1).all()


def test_vectors_that_are_all_alike_are_multiplied_once(monkeypatch):
    multiplied = []
    vectors = np.ones((5000, 8), np.float32)
    index = VectorIndex.build(vectors, IndexOptions())
    original = inner_products

    def counting(queries, searched, rows):
        multiplied.append(len(searched))
        return original(queries, searched, rows)

    monkeypatch.setattr("pyrite.ranking.inner_products.inner_products", counting)
    rows, _ = index.search(np.ones((3, 8), np.float32), 20)
    assert rows.tolist() == [list(range(20))] * 3
    assert multiplied == [1]
    assert index.scores(np.ones((1, 8), np.float32), np.array([[4999]])).tolist() == [[8]]


def test_few_repetitions_need_no_copy():
    vectors = np.random.default_rng(0).normal(size=(80, 4)).astype(np.float32)
    vectors[1:10] = vectors[0]
    assert AlikeVectors.of(vectors) is None  # 9 of 80
    vectors[10] = vectors[0]
    held = AlikeVectors.of(vectors)
    assert held is not None
    assert held.vectors.tobytes() == vectors[[0, *range(11, 80)]].tobytes()
    assert AlikeVectors.of(vectors[:0]) is None


@pytest.mark.parametrize("share", [1, 3])
def test_vectors_whose_digests_agree_by_chance_are_not_taken_for_alike(monkeypatch, share):
    def collide(rows, numbers):
        numbers[:] = np.arange(len(rows)) // share % 2

    monkeypatch.setattr(alike_vectors, "_digest_rows", collide)
    assert AlikeVectors.of(np.arange(40, dtype=np.float32)[:, None]) is None
