from dataclasses import replace

import numpy as np
import pytest

from ranking.encoding import EncodedCollection
from ranking.errors import BadInput
from ranking.sources import Sources
from ranking.vectors import RandomVectors
from sampling.retrieval.tfidf import TfIdf


def brute_force(sources: Sources) -> np.ndarray:
    """Cosines of all queries and documents, a word at a time."""

    def unit(texts: object, row: int) -> np.ndarray:
        tokens = texts.take(np.array([row])).tokens
        total = sum(float(sources.encoded.idf[token]) * sources.vectors.table[token].astype(float) for token in tokens)
        return total / max(float(np.linalg.norm(total)), 1e-12)

    encoded: EncodedCollection = sources.encoded
    queries = np.array([unit(encoded.queries, row) for row in range(len(encoded.queries))])
    documents = np.array([unit(encoded.documents, row) for row in range(len(encoded.documents))])
    return queries @ documents.T


def test_lists_are_those_of_brute_force(tiny_sources):
    cosines = brute_force(tiny_sources)
    lists = TfIdf(depth=7).rank(tiny_sources)
    assert lists.documents.shape == (8, 7)
    assert (lists.documents.dtype, lists.scores.dtype) == (np.int32, np.float32)
    np.testing.assert_allclose(lists.scores, -np.sort(-cosines, axis=1)[:, :7], atol=1e-6)
    np.testing.assert_allclose(np.take_along_axis(cosines, lists.documents, 1), lists.scores, atol=1e-6)


def test_a_short_collection_is_listed_whole_and_documents_alike_in_its_order(tiny_sources):
    lists = TfIdf(depth=100).rank(tiny_sources)
    assert (np.sort(lists.documents, axis=1) == np.arange(12)).all()
    for row in lists.documents.tolist():
        assert row.index(11) == row.index(10) + 1


def test_own_scores_are_on_the_lists_scale(tiny_sources):
    function, cosines = TfIdf(), brute_force(tiny_sources)
    queries, documents = np.array([3, 0]), np.array([[0, -1, 11], [4, 5, -1]])
    scores = function.own_scores(tiny_sources, queries, documents)
    expected = np.where(documents < 0, -np.inf, np.take_along_axis(cosines[queries], np.maximum(documents, 0), 1))
    np.testing.assert_allclose(scores, expected, atol=1e-6)


def test_word_vectors_that_nobody_trained_are_bad_input(tiny_sources):
    words = [""] * len(tiny_sources.encoded.idf)
    with pytest.raises(BadInput, match="vectors=glove"):
        TfIdf().rank(replace(tiny_sources, vectors=RandomVectors(4).read(words)))
