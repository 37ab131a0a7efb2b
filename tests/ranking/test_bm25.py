import math
from collections.abc import Sequence

import bm25s
import numpy as np
import polars as pl
import pytest
import Stemmer
from bm25s.stopwords import STOPWORDS_EN_PLUS

from ranking.bm25 import Bm25, Bm25Options
from ranking.collections.collection import Collection
from ranking.errors import BadInput

PLAIN = Bm25Options(stemming=None, stop_words=False)
WORDS = [f"w{number}" for number in range(40)]


def collection_of(documents: Sequence[str], queries: Sequence[str]) -> Collection:
    frames = [pl.DataFrame({"text": texts}, schema={"text": pl.String}) for texts in (documents, queries)]
    return Collection("some", "", *frames, pl.DataFrame())


def by_chance(documents: int = 200, queries: int = 30) -> Collection:
    """Words as frequent as Zipf's law has them, some texts empty, some words in queries alone."""
    rng = np.random.default_rng(1)
    share = 1 / np.arange(1, 41)
    texts = [
        " ".join(rng.choice(WORDS, rng.integers(0, 12), p=share / share.sum())) for _ in range(documents + queries)
    ]
    asked = [f"{text} unheard" if number % 3 else text for number, text in enumerate(texts[documents:])]
    return collection_of(texts[:documents], asked)


def scores_of_bm25s(collection: Collection, options: Bm25Options) -> np.ndarray:
    """Every document's score for every query, by bm25s alone from the same tokens."""
    index = bm25s.BM25(k1=options.k1, b=options.b, method="lucene")
    index.index([text.split() for text in collection.documents["text"]], show_progress=False)
    rows = []
    for text in collection.queries["text"]:
        tokens = [word for word in text.split() if word in index.vocab_dict]
        rows.append(index.get_scores(tokens) if tokens else np.zeros(len(collection.documents), np.float32))
    return np.array(rows)


@pytest.mark.parametrize("options", [PLAIN, Bm25Options(1.2, 0.75, None, False), Bm25Options(0, 0, None, False)])
def test_scores_and_lists_are_those_of_bm25s(options):
    collection = by_chance()
    expected = scores_of_bm25s(collection, options)
    every = np.tile(np.arange(200), (30, 1))
    lists, scores = Bm25(collection, options).search(np.arange(30), 15, every)
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-5)
    for query in range(30):
        matches = int((expected[query] > 0).sum())
        count = min(15, matches)
        assert lists.counts[query] == count
        found = lists.documents[query, :count]
        assert len(set(found.tolist())) == count
        assert (lists.documents[query, count:] == -1).all()
        assert (lists.scores[query, count:] == -np.inf).all()
        np.testing.assert_allclose(lists.scores[query, :count], np.sort(expected[query])[::-1][:count], rtol=1e-5)
        np.testing.assert_array_equal(lists.scores[query, :count], scores[query, found])
        # Ties in the collection's order, and of documents that tie at the end the first ones.
        order = np.lexsort((np.arange(200), -scores[query]))
        assert found.tolist() == order[:count].tolist()


def test_two_documents_by_hand():
    """idf = log(1 + (N − df + ½) / (df + ½)), weight = idf·tf / (tf + k1·(1 − b + b·length/mean))."""
    collection = collection_of(["cat cat dog", "dog"], ["cat", "dog cat", "dog dog"])
    lists, _ = Bm25(collection, Bm25Options(0.9, 0.4, None, False)).search(np.arange(3), 2)
    cat, dog = math.log(1 + 1.5 / 1.5), math.log(1 + 0.5 / 2.5)
    long, short = 0.9 * (0.6 + 0.4 * 3 / 2), 0.9 * (0.6 + 0.4 * 1 / 2)
    cat_long, dog_long, dog_short = cat * 2 / (2 + long), dog / (1 + long), dog / (1 + short)
    assert lists.documents.tolist() == [[0, -1], [0, 1], [1, 0]]
    np.testing.assert_allclose(lists.scores[0, 0], cat_long, rtol=1e-6)
    np.testing.assert_allclose(lists.scores[1], [dog_long + cat_long, dog_short], rtol=1e-6)
    np.testing.assert_allclose(lists.scores[2], [2 * dog_short, 2 * dog_long], rtol=1e-6)


def test_threads_and_the_company_of_queries_change_nothing():
    index, pairs = Bm25(by_chance(), PLAIN), np.random.default_rng(0).integers(-1, 200, (30, 6))
    lists, scores = index.search(np.arange(30), 10, pairs, threads=1)
    for threads in (2, 7):
        again, again_scores = index.search(np.arange(30), 10, pairs, threads=threads)
        np.testing.assert_array_equal(again.documents, lists.documents)
        np.testing.assert_array_equal(again.scores, lists.scores)
        np.testing.assert_array_equal(again_scores, scores)
    some = np.array([17, 3, 3])
    alone, alone_scores = index.search(some, 10, pairs[some])
    np.testing.assert_array_equal(alone.documents, lists.documents[some])
    np.testing.assert_array_equal(alone_scores, scores[some])


def test_pairs_without_a_shared_word_score_0_and_no_document_scores_minus_infinity():
    collection = collection_of(["a b", "c d"], ["a", "unheard", ""])
    lists, scores = Bm25(collection, PLAIN).search(np.arange(3), 5, np.array([[0, 1], [0, -1], [-1, 1]]))
    assert scores[0, 0] > 0
    assert scores[0, 1] == 0
    assert scores[1:].tolist() == [[0, -np.inf], [-np.inf, 0]]
    assert lists.documents.tolist() == [[0, -1, -1, -1, -1], [-1] * 5, [-1] * 5]


def test_depth_0_lists_nothing_and_still_scores_pairs():
    lists, scores = Bm25(collection_of(["a b"], ["a"]), PLAIN).search(np.arange(1), 0, np.array([[0]]))
    assert lists.documents.shape == (1, 0)
    assert scores[0, 0] > 0
    lists, scores = Bm25(collection_of(["a b"], ["a"]), PLAIN).search(np.zeros(0, np.int64), 4)
    assert lists.documents.shape == (0, 4)


@pytest.mark.parametrize("documents", [["the of", "and"], ["", ""], ["!"]])
def test_a_collection_of_stop_words_alone(documents):
    index = Bm25(collection_of(documents, ["the cat"]), Bm25Options())
    lists, scores = index.search(np.arange(1), 2, np.zeros((1, 1), np.int32))
    assert lists.documents.tolist() == [[-1, -1]]
    assert scores.tolist() == [[0]]


def test_an_empty_document_first_and_last_takes_its_place():
    index = Bm25(collection_of(["", "cat", "", "cat", ""], ["", "cat", ""]), PLAIN)
    assert index.search(np.arange(3), 3)[0].documents.tolist() == [[-1] * 3, [1, 3, -1], [-1] * 3]


def test_stemming_and_stop_words_can_be_switched_off():
    collection = collection_of(["Running of the bulls", "he runs"], ["run", "the", "RUNNING"])
    queries = np.arange(3)
    assert Bm25(collection, Bm25Options()).search(queries, 2)[0].documents.tolist() == [[1, 0], [-1, -1], [1, 0]]
    no_stop = Bm25(collection, Bm25Options(stop_words=False)).search(queries, 2)[0]
    assert no_stop.documents.tolist() == [[1, 0], [0, -1], [1, 0]]
    assert Bm25(collection, PLAIN).search(queries, 2)[0].documents.tolist() == [[-1, -1], [0, -1], [0, -1]]
    german = Bm25(collection_of(["die Häuser"], ["Haus"]), Bm25Options(stemming="german"))
    assert german.search(np.arange(1), 1)[0].documents.tolist() == [[0]]


def test_text_is_read_as_bm25s_with_the_same_stemmer_and_stop_words_reads_it():
    texts = ["Moles were digging tunnels, tunnelling!", "a mole's tunnel — ünïcode Tünnel 42", "the dogs dig dig"]
    asked = ["mole tunnels digs", "42 tünnel", "dogs"]
    stem = Stemmer.Stemmer("english")
    options = {"stopwords": list(STOPWORDS_EN_PLUS), "stemmer": stem, "token_pattern": r"\w+", "show_progress": False}
    index = bm25s.BM25(k1=0.9, b=0.4, method="lucene")
    index.index(bm25s.tokenize(texts, **options), show_progress=False)
    tokens = bm25s.tokenize(asked, return_ids=False, **options)
    expected = [index.get_scores(query) for query in tokens]
    _, scores = Bm25(collection_of(texts, asked), Bm25Options()).search(np.arange(3), 0, np.tile(np.arange(3), (3, 1)))
    np.testing.assert_allclose(scores, expected, rtol=1e-5)


def test_an_unknown_stemmer_is_bad_input():
    with pytest.raises(BadInput, match=r"klingon.*english"):
        Bm25(collection_of(["a"], ["a"]), Bm25Options(stemming="klingon"))
