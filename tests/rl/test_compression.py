"""Tests of `rl.compression`: texts as one vector each."""

import numpy as np

from ranking.training import Batch
from ranking.vectors import WordVectors, directions
from rl.compression import compress


def test_compression_adds_up_the_words_of_a_text(encoded_of):
    encoded = encoded_of([[2, 2, 3], [3], [4]], [[2], [3, 4]], {0: {0: 1}, 1: {2: 1}})
    table = np.array([[0, 0], [0, 0], [1, 0], [0, 1], [-1, 0]], np.float32)
    found = compress(encoded, WordVectors(table, table.any(axis=1)), "tf")
    # Document 0 is 2·(1, 0) + (0, 1), over its length √5; document 1 is relevant to nobody.
    np.testing.assert_allclose(found.documents, [[2 / 5**0.5, 1 / 5**0.5], [-1, 0]], rtol=1e-6)
    np.testing.assert_array_equal(found.relevant, [0, 2])
    np.testing.assert_allclose(found.queries, [[1, 0], [-(0.5**0.5), 0.5**0.5]], rtol=1e-6)
    rows = found.matrix(Batch(np.array([1]), np.array([2], np.int32)), 2)
    np.testing.assert_allclose(rows, [found.queries[1], found.documents[1], [0, 0], [0, 0]])


def test_compression_by_idf_weighs_words(encoded_of):
    encoded = encoded_of([[2, 3]], [[2]], {0: {0: 1}})
    table = np.array([[0, 0], [0, 0], [1, 0], [0, 1]], np.float32)
    found = compress(encoded, WordVectors(table, table.any(axis=1)), "idf")
    weights = encoded.idf[2:4]
    np.testing.assert_allclose(found.documents[0], weights / np.linalg.norm(weights), rtol=1e-6)


def test_a_text_without_a_known_word_has_no_direction(encoded_of):
    encoded = encoded_of([[2]], [[2]], {})
    table = np.zeros((3, 4), np.float32)
    assert not directions(encoded.documents, table, encoded.idf).any()
