from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from ranking.encoding import EncodedCollection
from ranking.errors import BadInput
from ranking.ranked_lists import stack_lists
from ranking.sources import Sources
from ranking.vectors import RandomVectors
from sampling.retrieval import embedding
from sampling.retrieval.bm25 import Bm25Function
from sampling.retrieval.embedding import Embedding
from sampling.retrieval.ranked import draw_positions
from sampling.retrieval.tfidf import TfIdf
from tests.sampling.batches import batch_of


@given(st.lists(st.integers(0, 12), min_size=1, max_size=6), st.integers(0, 8), st.integers(0, 2**32))
def test_places_are_distinct_and_inside(counts, count, seed):
    places = draw_positions(np.array(counts), count, np.random.default_rng(seed))
    assert places.shape == (len(counts), count)
    for row, there in zip(places, counts, strict=True):
        drawn = row[:there].tolist()
        assert len(set(drawn)) == len(drawn) == min(count, there)
        assert all(0 <= place < there for place in drawn)


@pytest.mark.parametrize(("there", "count"), [(7, 1), (7, 3), (7, 6), (5, 5)])
def test_every_set_of_places_is_as_probable_as_another(there, count):
    places = draw_positions(np.full(40_000, there), count, np.random.default_rng(4))
    sets, frequencies = np.unique((1 << places).sum(axis=1), return_counts=True)
    assert len(sets) == len([n for n in range(2**there) if n.bit_count() == count])
    assert len(sets) == 1 or chisquare(frequencies).pvalue > 0.01


def test_places_of_long_lists_stay_inside():
    class AlmostOne:
        def random(self, shape: tuple[int, int]) -> np.ndarray:
            return np.full(shape, np.nextafter(1, 0))

    for there in (3, 1000, 2**31 - 1, 2**40 + 1):
        places = draw_positions(np.array([there]), 2, AlmostOne())
        assert places.max() == there - 1


def ready() -> Bm25Function:
    function = Bm25Function(depth=5)
    documents = [np.array([9, 3, 5, 1, 7]), np.array([4, 2]), np.array([], int)]
    scores = [np.array([5.0, 4, 3, 2, 1]), np.array([2.0, 1]), np.array([])]
    function.prepare(None, stack_lists(list(zip(documents, scores, strict=True)), 5))
    return function


def test_samples_are_distinct_documents_of_the_list_with_their_scores():
    function, rng = ready(), np.random.default_rng(0)
    score = {9: 5, 3: 4, 5: 3, 1: 2, 7: 1}
    for _ in range(50):
        candidates = function.sample(batch_of(0, 1, 2), 3, rng)
        first = candidates.documents[0].tolist()
        assert len(set(first)) == 3
        assert candidates.scores[0].tolist() == [score[document] for document in first]
        assert sorted(candidates.documents[1]) == [-1, 2, 4]
        assert candidates.documents[1, 2] == -1
        assert candidates.scores[1, 2] == -np.inf
        assert (candidates.documents[2] == -1).all()
        assert (candidates.documents.dtype, candidates.scores.dtype) == (np.int32, np.float32)


def test_the_top_is_the_lists_head():
    candidates = ready().top(batch_of(1, 0, 2), 4, np.random.default_rng(0))
    assert candidates.documents.tolist() == [[4, 2, -1, -1], [9, 3, 5, 1], [-1] * 4]
    assert ready().top(batch_of(0), 7, np.random.default_rng(0)).documents.tolist() == [[9, 3, 5, 1, 7, -1, -1]]
    assert ready().top(batch_of(0), 0, np.random.default_rng(0)).documents.shape == (1, 0)


def test_a_ranked_function_needs_lists(encoded_of):
    with pytest.raises(ValueError, match="received no lists"):
        Bm25Function().prepare(encoded_of([[1]], [[1]], {}), None)


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


@pytest.mark.parametrize("embeds", [False, True])
def test_a_short_collection_is_listed_whole_and_documents_alike_in_its_order(embeds, small_bert, tiny_sources):
    lists = (Embedding(small_bert, depth=100) if embeds else TfIdf(depth=100)).rank(tiny_sources)
    assert (np.sort(lists.documents[:, :12], axis=1) == np.arange(12)).all()
    assert (lists.documents[:, 12:] == -1).all()
    for row in lists.documents.tolist():
        assert row.index(11) == row.index(10) + 1  # the last two documents of `tiny`


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


@pytest.fixture(scope="module")
def transformers_vectors(small_bert) -> Any:
    """Mean of the last layer, of unit length, by transformers alone."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(small_bert), AutoModel.from_pretrained(small_bert).eval()

    def of(texts: list[str]) -> np.ndarray:
        rows = []
        for text in texts:
            with torch.no_grad():
                mean = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(0)
            rows.append((mean / mean.norm()).numpy())
        return np.stack(rows)

    return of


def test_lists_are_the_cosines_of_the_checkpoint(small_bert, tiny_sources, transformers_vectors, monkeypatch):
    monkeypatch.setattr(embedding, "CHUNK", 3)
    function = Embedding(small_bert, depth=5)
    lists = function.rank(tiny_sources)
    collection = tiny_sources.collection
    queries, documents = (
        transformers_vectors(frame["text"].to_list()) for frame in (collection.queries, collection.documents)
    )
    cosines = queries @ documents.T
    assert lists.scores == pytest.approx(-np.sort(-cosines, axis=1)[:, :5], abs=1e-5)
    assert np.take_along_axis(cosines, lists.documents, 1) == pytest.approx(lists.scores, abs=1e-5)
    own = function.own_scores(tiny_sources, np.array([6, 1]), np.array([[3, -1], [0, 11]]))
    assert own[:, 0] == pytest.approx(cosines[[6, 1], [3, 0]], abs=1e-5)
    assert np.isneginf(own[0, 1])
    assert (Embedding(small_bert, depth=5).rank(tiny_sources).scores == lists.scores).all()


def test_options_reach_the_encoder(small_bert, tiny_sources):
    whole = Embedding(small_bert, depth=12).rank(tiny_sources)
    for other in ({"layers": 1}, {"pooling": "cls"}, {"similarity": "dot"}, {"max_document": 2}):
        assert (Embedding(small_bert, depth=12, **other).rank(tiny_sources).scores != whole.scores).any()


def test_a_checkpoint_that_is_not_there_is_one_line(tiny_sources, tmp_path):
    with pytest.raises(BadInput) as caught:
        Embedding(str(tmp_path)).rank(tiny_sources)
    assert str(tmp_path) in str(caught.value)
