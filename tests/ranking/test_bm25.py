import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import polars as pl
import pytest
import Stemmer
from bm25s.stopwords import STOPWORDS_EN_PLUS

from pyrite.ranking import bm25_pieces, postings_kernels, reading
from pyrite.ranking.bm25 import Bm25, Bm25Options
from pyrite.ranking.bm25_pieces import PiecedBm25, fewer_first
from pyrite.ranking.collections.arrow_files import mapped, write
from pyrite.ranking.collections.build import STORED
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.collections.pieces import in_turn, piece_file
from pyrite.ranking.counted_postings import CountedPostings, idf_of, weigh
from pyrite.ranking.errors import BadInput
from pyrite.ranking.postings import Postings, largest_weights, search_postings
from pyrite.ranking.stop_words import STOP_WORDS
from tests.made_up import collection_of
from tests.ranking.trained import equal

PLAIN = Bm25Options(stemming=None, stop_words=False)
WORDS = [f"w{number}" for number in range(40)]


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
    lists, scores = Bm25(collection, options).search(np.arange(30), 15, np.tile(np.arange(200), (30, 1)))
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-5)
    for query in range(30):
        count = min(15, int((expected[query] > 0).sum()))
        assert lists.counts[query] == count
        found = lists.documents[query, :count]
        assert (lists.documents[query, count:] == -1).all()
        assert (lists.scores[query, count:] == -np.inf).all()
        np.testing.assert_allclose(lists.scores[query, :count], np.sort(expected[query])[::-1][:count], rtol=1e-5)
        np.testing.assert_array_equal(lists.scores[query, :count], scores[query, found])
        # Ties in the collection's order, and of documents that tie at the end the first ones.
        order = np.lexsort((np.arange(200), -scores[query]))
        assert found.tolist() == order[:count].tolist()


def test_threads_and_the_company_of_queries_change_nothing():
    index, pairs = Bm25(by_chance(), PLAIN), np.random.default_rng(0).integers(-1, 200, (30, 6))
    lists, scores = index.search(np.arange(30), 10, pairs, threads=1)
    for threads in (2, 7):
        assert equal(index.search(np.arange(30), 10, pairs, threads=threads), (lists, scores))
    some = np.array([17, 3, 3])
    assert equal(index.search(some, 10, pairs[some]), (lists.take(some), scores[some]))


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


def test_the_stop_words_are_those_of_bm25s():
    assert set(STOPWORDS_EN_PLUS) == STOP_WORDS


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


EVERY = np.arange(30)


@pytest.fixture
def collections(tmp_path) -> tuple[Collection, Collection]:
    """The same texts in one piece and in seven of unequal size, one of them empty."""
    return both(by_chance(), [0, 1, 30, 30, 90, 91, 170, 200], tmp_path)


def without_labels(collection: Collection) -> Collection:
    """The collection with the columns of one that was read."""
    blank = [pl.lit(None, pl.String).alias(name) for name in ("category", "subcategory")]
    return replace(collection, documents=collection.documents.with_columns(*blank), fingerprint="f")


def both(collection: Collection, bounds: list[int], folder: Path) -> tuple[Collection, Collection]:
    """A collection in one piece, and in pieces between these rows."""
    whole = without_labels(collection)
    files = []
    for number, (start, stop) in enumerate(pairwise(bounds)):
        files.append(folder / piece_file(number))
        write(files[-1], STORED["documents"], [whole.documents[start:stop]])
    frame = pl.concat([mapped(file) for file in files], rechunk=False)
    return whole, replace(whole, documents=frame, files=tuple(files), rows=tuple(len(mapped(file)) for file in files))


def assert_same(whole: Collection, parts: Collection, options: Bm25Options, *asked: Any) -> None:
    """An index of the pieces gives the bytes of that of the whole."""
    assert equal(PiecedBm25(parts, options).search(*asked), Bm25(whole, options).search(*asked))


@pytest.mark.by_day(2)
@pytest.mark.parametrize("options", [PLAIN, Bm25Options(), Bm25Options(1.2, 0.75, None, False), Bm25Options(0, 0)])
@pytest.mark.parametrize("many", [1, 1000])
def test_scores_and_lists_are_those_of_one_piece(collections, options, many, monkeypatch):
    monkeypatch.setattr(bm25_pieces, "MANY", many)
    monkeypatch.setattr(reading, "CHUNK", 25)
    whole, parts = collections
    pairs = np.random.default_rng(2).integers(-1, 200, (30, 50))
    for depth in (15, 0, 300):
        assert_same(whole, parts, options, EVERY, depth, pairs)
    assert_same(whole, parts, options, np.array([17, 3, 3]), 15)


def test_long_lists_of_postings_and_many_blocks(tmp_path, monkeypatch):
    """So many that documents are left out, with queries, lists and postings in blocks."""
    for name, size in (("MANY", 1), ("BLOCK", 7), ("MERGED", 3)):
        monkeypatch.setattr(bm25_pieces, name, size)
    whole, parts = both(by_chance(4000), [0, 2500, 4000], tmp_path)
    pairs = np.random.default_rng(2).integers(-1, 4000, (30, 20))
    assert_same(whole, parts, Bm25Options(0.9, 0.4, None, False), EVERY, 2, pairs)


@pytest.mark.parametrize("best_in", [0, 3, None])
def test_pieces_are_asked_for_their_share_first(best_in):
    """The lists are those of whole depth wherever the best are, and only pieces that may have more are asked again."""
    ranges, depth, queries = [range(100 * n, 100 * n + 100) for n in range(12)], 30, 40
    rng = np.random.default_rng(0)
    scores = rng.integers(1, 50, (queries, 1200)).astype(np.float32)  # with ties
    if best_in is not None:
        scores[:, ranges[best_in].start : ranges[best_in].stop] += 100
    scores[:5, 20:] = 0  # fewer than the depth
    asked = []

    def ask(rows: list[np.ndarray], depth: int, pairs: np.ndarray) -> list[Any]:
        asked.append((depth, sum(map(len, rows))))
        results = []
        for some, held in zip(rows, ranges, strict=True):
            part = scores[some][:, held.start : held.stop]
            order = np.lexsort((np.broadcast_to(np.arange(100), part.shape), -part), axis=1)[:, :depth]
            values = np.take_along_axis(part, order, 1)
            none = values <= 0
            results.append((np.where(none, -1, order).astype(np.int32), np.where(none, -np.inf, values), pairs[some]))
        return results

    pairs = np.zeros((queries, 2), np.float32)
    documents, values, of_pairs = fewer_first(ask, ranges, depth, pairs)
    expected = bm25_pieces.merged(ask([np.arange(queries)] * 12, depth, pairs), ranges, depth)
    assert equal((documents, values), expected[:2])
    assert of_pairs.shape == (queries, 2)
    assert asked[0] == (9, 12 * queries)
    assert asked[1][0] == depth
    assert asked[1][1] < 2 * queries


def test_what_is_counted_stays_where_it_is_interrupted(collections):
    parts, counted = collections[1], []

    def interrupted(task: Callable[[int], None], count: int) -> None:
        in_turn(task, 5)
        raise KeyboardInterrupt

    def look(task: Callable[[int], None], count: int) -> None:
        place = parts.pieces[0].parent
        counted.append(len(list(place.glob("bm25-*/*/offsets.npy"))))
        in_turn(task, count)

    with pytest.raises(KeyboardInterrupt):
        PiecedBm25(parts, PLAIN, interrupted)
    found = PiecedBm25(parts, PLAIN, look).search(EVERY, 10)[0]
    assert counted == [5, 7]  # five of seven were there; then all are weighed
    assert found.documents.tobytes() == Bm25(collections[0], PLAIN).search(EVERY, 10)[0].documents.tobytes()
    PiecedBm25(parts, PLAIN, look)
    assert counted == [5, 7]  # made once


SIZE = 20_000
NONE = np.zeros((0, 0), np.int32)


def postings_by_chance(seed: int = 0) -> Postings:
    """Terms from in every document to in a few, the rarer the heavier, many weights equal."""
    rng = np.random.default_rng(seed)
    documents, weights = [], []
    for share in (1.0, 0.9, 0.5, 0.2, 0.1, 0.02, 0.002, 0.0002, 0.0):
        documents.append(np.flatnonzero(rng.random(SIZE) < share).astype(np.int32))
        tenths = rng.integers(1, 4, len(documents[-1])) / 10
        weights.append(np.float32(tenths * (0.01 - np.log(max(share, 1e-5)))))
    offsets = np.concatenate([[0], np.cumsum([len(own) for own in documents])]).astype(np.int64)
    together = np.concatenate(weights)
    return Postings(offsets, np.concatenate(documents), together, largest_weights(offsets, together), SIZE)


def plainly(index: Postings, query: np.ndarray) -> np.ndarray:
    """The score of every document."""
    scores = np.zeros(SIZE, np.float32)
    for term in query:
        own = slice(index.offsets[term], index.offsets[term + 1])
        scores[index.documents[own]] += index.weights[own]
    return scores


@pytest.mark.by_day(2)
@pytest.mark.parametrize("depth", [0, 1, 3, 20, 100])
def test_lists_and_scores_are_those_of_plain_sums_to_the_bit(depth):
    index, rng = postings_by_chance(), np.random.default_rng(depth)
    queries = [rng.integers(0, 9, rng.integers(0, 8)) for _ in range(60)]
    pairs = rng.integers(-1, SIZE, (60, 5)).astype(np.int32)
    documents, scores, of_pairs = search_postings(index, queries, depth, pairs, 1)
    for number, query in enumerate(queries):
        every = plainly(index, query)
        order = np.lexsort((np.arange(SIZE), -every))[:depth]
        order = order[every[order] > 0]
        assert documents[number, : len(order)].tolist() == order.tolist()
        assert (documents[number, len(order) :] == -1).all()
        assert scores[number, : len(order)].tobytes() == every[order].tobytes()
        expected = np.where(pairs[number] < 0, np.float32(-np.inf), every[pairs[number]])
        assert of_pairs[number].tobytes() == expected.tobytes()


def test_documents_that_cannot_come_into_the_list_are_left_out():
    index, space = postings_by_chance(), postings_kernels.Workspace.of(SIZE, 10, 4)
    query = np.array([0, 1, 5, 2])  # one of fifty, and three that most documents have
    count = postings_kernels._candidates(index, query, space)
    every = plainly(index, query)
    best = np.lexsort((np.arange(SIZE), -every))[:10]
    assert 10 <= count < 1000
    assert set(best.tolist()) <= set(space.touched[:count].tolist())
    assert not space.score.any()  # as the next query needs it


def test_bounds_by_hand():
    offsets = np.array([0, 2, 2, 3, 3])
    assert largest_weights(offsets, np.array([1, 3, 2], np.float32)).tolist() == [3, 0, 2, 0]
    assert largest_weights(np.zeros(3, np.int64), np.zeros(0, np.float32)).tolist() == [0, 0]


def test_no_query_and_no_term():
    documents, scores, of_pairs = search_postings(postings_by_chance(), [], 4, NONE, 2)
    assert documents.shape == scores.shape == (0, 4)
    assert of_pairs.shape == (0, 0)
    nothing = search_postings(postings_by_chance(), [np.zeros(0, np.int64)], 2, np.array([[3]], np.int32), 2)
    assert nothing[0].tolist() == [[-1, -1]]
    assert nothing[2].tolist() == [[0]]


def counted(chunks: list[list[list[int]]], known: int) -> list[np.ndarray]:
    postings = CountedPostings()
    for texts in chunks:
        flat = np.array([term for text in texts for term in text], np.int32)
        postings.add(flat, np.array([len(text) for text in texts]), known)
    return list(postings.take(known))


def test_postings_by_hand_from_one_chunk_and_from_several():
    texts = [[1, 0, 1], [], [2, 1], [9, 1, 9], [0]]
    for chunks in ([texts], [texts[:2], texts[2:3], texts[3:]], [[], texts]):
        offsets, documents, counts, lengths = counted(chunks, 3)
        assert offsets.tolist() == [0, 2, 5, 6]
        assert documents.tolist() == [0, 4, 0, 2, 3, 2]
        assert counts.tolist() == [1, 1, 2, 1, 1, 1]
        assert lengths.tolist() == [3, 0, 2, 3, 1]  # terms that are not counted add to the length


@pytest.mark.nightly
def test_a_term_that_occurs_more_often_than_sixteen_bits_hold():
    _, _, counts, _ = counted([[[0] * 70_000, [0]]], 1)
    assert counts.tolist() == [70_000, 1]


def test_no_documents_and_no_terms():
    assert [len(array) for array in counted([], 2)] == [3, 0, 0, 0]
    assert [len(array) for array in counted([[[5]]], 0)] == [1, 0, 0, 1]


def test_weights_by_hand():
    offsets, documents, counts, lengths = counted([[[0, 0, 1], [1]]], 2)
    idf = idf_of(2, np.diff(offsets))
    assert idf.tolist() == pytest.approx([math.log(2), math.log(1 + 0.5 / 2.5)])
    weigh(offsets, documents, counts, lengths, 2.0, idf, Bm25Options(0.9, 0.4), counts)  # in place
    long, short = 0.9 * (0.6 + 0.4 * 3 / 2), 0.9 * (0.6 + 0.4 * 1 / 2)
    expected = [idf[0] * 2 / (2 + long), idf[1] / (1 + long), idf[1] / (1 + short)]
    np.testing.assert_allclose(counts, expected, rtol=1e-6)
