"""Retrieval models held against their formulas, worked by hand or another way."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from pooling.systems import models
from pooling.systems.inputs import SystemInputs
from pooling.systems.term_index import TermIndex, character_grams, counts_of, pair_counts
from ranking.bm25 import Bm25, Bm25Options
from ranking.splits import Split

COUNTS = np.array([[2, 1, 0, 0], [1, 0, 3, 0], [0, 0, 1, 1]], float)  # documents × terms
TOPICS = np.array([[1, 0, 1, 0], [0, 2, 0, 0]], float)


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture
def index() -> TermIndex:
    return TermIndex(csr_array(COUNTS), csr_array(TOPICS), COUNTS.sum(1))


def test_counts():
    counts = counts_of([np.array([1, 0, 1]), np.array([], int), np.array([2])], 4)
    assert counts.toarray().tolist() == [[1, 2, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0]]


def test_pairs_stay_within_a_text():
    documents, topics = pair_counts([np.array([5, 7, 5, 7]), np.array([7, 5])], [np.array([5, 7, 9])])
    assert topics.toarray().tolist() == [[1, 1]]  # 5 7 and 7 9
    assert documents.toarray().tolist() == [[2, 0], [0, 0]]  # neither 7 5 counts, nor 7 | 7 across documents


def test_character_grams():
    words = csr_array(np.array([[2.0, 1.0], [0.0, 1.0]]))
    grams = character_grams(TermIndex(words, csr_array(np.array([[1.0, 0.0]])), np.array([3.0, 1.0])), ["cat", "at"], 3)
    # _ca cat at_ are asked for, in byte order _ca at_ cat; "at" has _at and at_.
    assert grams.topics.toarray().tolist() == [[1, 1, 1]]
    assert grams.documents.toarray().tolist() == [[2, 3, 2], [0, 1, 0]]
    assert grams.lengths.tolist() == [8, 2]


@pytest.mark.parametrize(("k1", "b", "stop_words"), [(0.9, 0.4, True), (2.0, 1.0, True), (1.2, 0.0, False)])
def test_bm25_is_the_projects(tiny, tiny_encoded, k1, b, stop_words):
    queries = np.arange(len(tiny.queries))
    inputs = SystemInputs(tiny, tiny_encoded, [], Split(queries[:0], queries[:0], queries), 12)
    index = inputs.stems if stop_words else inputs.words
    scores = np.where(index.matches, models.bm25(index, k1, b), -np.inf)
    options = Bm25Options(k1, b, "english" if stop_words else None, stop_words)
    lists, _ = Bm25(tiny, options).search(queries, 12)
    assert (lists.counts == np.isfinite(scores).sum(1)).all()
    assert lists.counts.sum() > 20
    np.testing.assert_allclose(inputs.spread(lists), scores, rtol=1e-5)


def test_bm25_variants(index):
    # Term 2 in document 1: tf 3, df 2, length 4, mean length 3, of 3 documents.
    longer = 1 - 0.75 + 0.75 * 4 / 3
    plus = np.log(4 / 2) * (2.2 * 3 / (3 + 1.2 * longer) + 1) + np.log(4 / 2) * (2.2 * 1 / (1 + 1.2 * longer) + 1)
    assert models.bm25_plus(index, 1.2, 0.75)[0, 1] == pytest.approx(plus)
    parts = [(tf / longer + 0.5) for tf in (3, 1)]
    long = sum(np.log(4 / 2.5) * 2.2 * part / (1.2 + part) for part in parts)
    assert models.bm25_l(index, 1.2, 0.75)[0, 1] == pytest.approx(long)


def test_query_likelihood(index):
    background = COUNTS.sum(0) / COUNTS.sum()
    lengths = COUNTS.sum(1, keepdims=True)
    # What is left out is ln p(t|C) of each term of the topic, the same for all documents.
    smoothed = np.log((COUNTS + 50 * background) / (lengths + 50)) - np.log(background)
    np.testing.assert_allclose(models.dirichlet(index, 50), TOPICS @ smoothed.T)
    mixed = np.log(0.7 * COUNTS / lengths + 0.3 * background) - np.log(0.3 * background)
    np.testing.assert_allclose(models.jelinek_mercer(index, 0.3), TOPICS @ mixed.T)


def test_divergence_from_randomness(index):
    # Term 1 in document 0, asked for twice: tf 1, length 3 as the mean, cf 1, df 1.
    dph = (2 / 3) ** 2 / 2 * (np.log2(3) + 0.5 * np.log2(2 * np.pi * 2 / 3))
    assert models.dph(index)[1, 0] == pytest.approx(2 * dph)
    assert models.inl2(index)[1, 0] == pytest.approx(2 * (1 / 2) * np.log2(4 / 1.5))


def test_a_document_of_one_term_alone():
    index = TermIndex(csr_array(np.array([[3.0], [0.0]])), csr_array(np.array([[1.0]])), np.array([3.0, 0.0]))
    assert np.isfinite(models.dph(index)).all()


def test_coordination(index):
    assert models.coordination(index).tolist() == [[1, 2, 1], [1, 0, 0]]
    assert models.shared_idf(index)[0].tolist() == pytest.approx([np.log(2), 2 * np.log(2), np.log(2)])
    assert index.matches.tolist() == [[True, True, True], [True, False, False]]


def test_cosine(index):
    idf = np.log(4 / np.array([2, 1, 2, 1]))
    with np.errstate(divide="ignore"):
        tf, asked = (np.where(counts > 0, 1 + np.log(counts), 0) for counts in (COUNTS, TOPICS))
    np.testing.assert_allclose(models.cosine(index), unit(asked * idf) @ unit(tf * idf).T)
    np.testing.assert_allclose(models.cosine(index, idf=False), unit(asked * idf) @ unit(tf).T)


def test_pivoted(index):
    weight = (1 + np.log(1 + np.log(2))) * np.log(4 / 2)  # document 0 is as long as the mean
    assert models.pivoted(index)[0, 0] == pytest.approx(weight)


def test_expansion(index):
    expanded = models.relevance_model(index, 50, feedback=1, terms=1).topics.toarray()
    # The best document of topic 0 is the second, 3/4 of it term 2; of topic 1 the first, 2/3 of it term 0.
    np.testing.assert_allclose(expanded, [[0.25, 0, 0.75, 0], [0.5, 0.5, 0, 0]])


def test_feedback_finds_what_shares_no_term_with_the_topic(index):
    moved = models.rocchio(index, feedback=1, terms=4)
    assert models.cosine(index)[1].tolist() == pytest.approx([models.cosine(index)[1, 0], 0, 0])
    assert moved[1, 1] > 0
    assert moved[1, 0] > moved[1, 1]


def test_latent_semantics_in_all_dimensions_is_cosine(index):
    topics = replace(index, topics=csr_array(COUNTS[:2]))  # within the documents' space, where nothing is lost
    found = models.dense_cosine(*models.latent_semantics(topics, 3, np.random.default_rng(3)))
    np.testing.assert_allclose(found, models.cosine(topics), atol=1e-9)


def test_a_topic_without_known_terms_is_near_nothing():
    assert models.dense_cosine(np.eye(2), np.array([[0.0, 0.0], [0.0, 2.0]])).tolist() == [[-np.inf] * 2, [0, 1]]


def test_fusion():
    rankings = [np.array([[2, 0, -1]], np.int32), np.array([[0, 3, 2]], np.int32)]
    fused = models.reciprocal_ranks(rankings, 5)
    expected = [1 / 62 + 1 / 61, -np.inf, 1 / 61 + 1 / 63, 1 / 62, -np.inf]
    assert fused[0].tolist() == pytest.approx(expected)
