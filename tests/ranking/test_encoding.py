import math
import tracemalloc
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrite.ranking.ascending import find
from pyrite.ranking.collections.beir import Beir
from pyrite.ranking.collections.cache import open_collection
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.encoding import UNKNOWN, Encoder, Judgements, encode_texts
from pyrite.ranking.errors import BadInput
from pyrite.ranking.labels import LabelCounts, encode_labels, label_counts, labels_of
from pyrite.ranking.reading import CHUNK, words_of
from pyrite.ranking.texts import Texts
from tests.made_up import Labels, collection_of, labelled, write_texts

GRADES = st.dictionaries(st.integers(0, 5), st.dictionaries(st.integers(0, 9), st.integers(-1, 3)), max_size=6)


def words(collection: Collection, encoder: Encoder) -> tuple[list[list[str]], list[list[str]]]:
    encoded, vocabulary = encoder.encode(collection)
    return tuple(
        [[vocabulary[token] for token in texts.take(np.array([row])).tokens] for row in range(len(texts))]
        for texts in (encoded.documents, encoded.queries)
    )


def test_words_are_lowercase_letters_and_digits_of_any_script():
    frame = pl.DataFrame({"text": ["Über-Straße, 42! naïve_x", "日本 ΑΒΓ don't", "e\u0301te\u0301 कितना", "—!…", ""]})
    read = [text.to_list() for text in next(words_of(frame, 100))]
    assert read[0] == ["über", "straße", "42", "naïve", "x"]
    assert read[1] == ["日本", "αβγ", "don", "t"]
    assert read[2] == ["\u00e9t\u00e9", "कितना"]  # composed
    assert read[3:] == [[], []]


def test_texts_are_cut_and_rare_words_are_unknown():
    collection = collection_of(["a a b c", "b", "c d"], ["b c d a", "zz"])
    documents, queries = words(collection, Encoder(min_count=2, max_document=3, max_query=2))
    # Of the first document's four words the last is not read, nor are the last two of the first query's.
    assert documents == [["<unknown>", "<unknown>", "b"], ["b"], ["c", "d"]]
    assert queries == [["b", "c"], ["<unknown>"]]


def test_the_most_frequent_words_are_kept_and_ties_go_by_the_alphabet():
    collection = collection_of(["d c b", "c b", "b"], ["a"])
    assert Encoder(min_count=1, max_words=3).encode(collection)[1] == ["", "<unknown>", "b", "c", "a"]


def test_idf_by_hand():
    encoded, vocabulary = Encoder(min_count=1).encode(collection_of(["b b", "b c"], ["b"]))
    assert vocabulary == ["", "<unknown>", "b", "c"]
    np.testing.assert_allclose(encoded.idf, [0, math.log(4) + 1, math.log(4 / 4) + 1, math.log(4 / 2) + 1], rtol=1e-6)
    assert encoded.idf.dtype == np.float32


def test_a_text_without_words_is_one_unknown_word():
    encoded, vocabulary = Encoder(min_count=1).encode(collection_of(["", "…", "a"], ["?"]))
    assert encoded.documents.tokens.tolist() == [UNKNOWN, UNKNOWN, vocabulary.index("a")]
    assert encoded.documents.lengths.tolist() == [1, 1, 1]
    assert encoded.queries.tokens.tolist() == [UNKNOWN]


def test_chunks_do_not_show():
    frame = pl.DataFrame({"text": ["a b"] * (CHUNK - 1) + ["", "b", "c a"]})
    texts = encode_texts(frame, ["", "<unknown>", "a", "b"], 5)
    assert len(texts) == CHUNK + 2
    assert texts.take(np.arange(CHUNK - 2, CHUNK + 2)).tokens.tolist() == [2, 3, 1, 3, 1, 2]
    assert texts.lengths[-4:].tolist() == [2, 1, 1, 2]


def test_keys_are_the_ranks_of_ids_in_byte_order():
    collection = collection_of(["a"] * 5, ["a"])
    ids = ["10", "9", "ä", "Z", "a"]
    named = replace(collection, documents=collection.documents.with_columns(id=pl.Series(ids)))
    encoded, _ = Encoder(min_count=1).encode(named)
    assert encoded.document_key.tolist() == [1, 2, 5, 3, 4]


def test_keys_splits_and_judgements_of_the_tiny_collection(tiny, tiny_encoded):
    ids = tiny.documents["id"].to_list()
    assert [ids[document] for document in np.argsort(tiny_encoded.document_key)] == sorted(ids)
    assert tiny_encoded.split.tolist() == [0, 0, 0, 0, 1, 1, 2, 2]
    assert tiny_encoded.queries_of("dev").tolist() == [4, 5]
    for query, document, grade in tiny.judgements.iter_rows():
        row, column = tiny.queries["id"].to_list().index(query), ids.index(document)
        assert tiny_encoded.judgements.lookup(np.array([row]), np.array([[column]]))[0, 0] == grade
    assert len(tiny_encoded.judgements.grades) == len(tiny.judgements)


def test_grades_below_the_threshold_are_not_relevant_and_all_keep_theirs():
    collection = collection_of(["a", "b", "c"], ["a"], [("q0", "d2", 3), ("q0", "d0", 1), ("q0", "d1", 2)])
    encoded, _ = Encoder(relevant_from=2).encode(collection)
    documents, grades = encoded.judgements.of(0)
    assert documents.tolist() == [0, 1, 2]
    assert grades.tolist() == [1, 2, 3]
    assert encoded.judgements.relevant().of(0)[0].tolist() == [1, 2]
    assert encoded.split.tolist() == [-1]
    assert encoded.judgements.not_relevant().of(0)[0].tolist() == [0]
    assert encoded.judgements.gaining().of(0)[0].tolist() == [0, 1, 2]


def test_judged_not_relevant_is_told_from_unjudged():
    collection = collection_of(["a", "b", "c", "d"], ["a"], [("q0", "d0", 0), ("q0", "d1", -1), ("q0", "d2", 1)])
    judgements = Encoder().encode(collection)[0].judgements
    every = np.array([[0, 1, 2, 3, -1]])
    assert judgements.lookup(np.zeros(1, int), every).tolist() == [[0, -1, 1, 0, 0]]
    assert judgements.are_relevant(np.zeros(1, int), every).tolist() == [[False, False, True, False, False]]
    assert judgements.not_relevant().of(0)[0].tolist() == [0]


def test_a_collection_without_judgements():
    judgements = Encoder().encode(collection_of(["a"], ["b", "c"]))[0].judgements
    assert judgements.offsets.tolist() == [0, 0, 0]
    assert judgements.lookup(np.arange(2), np.zeros((2, 3), np.int32)).tolist() == [[0] * 3] * 2
    assert judgements.relevant().offsets.tolist() == [0, 0, 0]


def test_a_lookup_costs_the_same_among_few_and_many_judgements():
    judgements = Judgements(np.arange(100_001), np.arange(100_000, dtype=np.int32), np.ones(100_000, np.int32))
    tracemalloc.start()
    relevant = judgements.are_relevant(np.array([7, 9, 7]), np.array([[7, 8], [8, 9], [-1, 7]]))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert relevant.tolist() == [[True, False], [False, True], [False, True]]
    assert peak < 100_000  # less than a byte per judgement


@given(GRADES, st.lists(st.integers(0, 5), max_size=5))
def test_lookup_is_a_dictionary(encoded_of, grades, queries):
    judgements = encoded_of([], [[]] * 6, grades).judgements
    asked = np.tile(np.arange(-1, 13, dtype=np.int32), (len(queries), 1))  # also documents that nobody judged
    every = {(query, document): grade for query, row in grades.items() for document, grade in row.items()}
    for kept, of in ((judgements, every), (judgements.relevant(), {p: g for p, g in every.items() if g > 0})):
        found = kept.lookup(np.array(queries, np.int64), asked)
        assert found.dtype == np.int32
        assert found.tolist() == [[of.get((query, document), 0) for document in range(-1, 13)] for query in queries]
        for query in range(6):
            expected = {document: grade for (row, document), grade in of.items() if row == query}
            assert dict(zip(*(part.tolist() for part in kept.of(query)), strict=True)) == expected
        assert kept.rows().tolist() == [query for query, _ in sorted(of)]


def test_lookup_of_millions_of_queries_and_documents_does_not_overflow():
    queries, last = 3_000_000, 2**31 - 2
    offsets = np.minimum(np.arange(queries + 1), 1)
    offsets[-1] = 3
    judgements = Judgements(offsets, np.array([7, 8, last], np.int32), np.array([1, 2, 3], np.int32))
    asked = np.array([[7, 8, last, -1]] * 2, np.int32)
    assert judgements.lookup(np.array([0, queries - 1], np.int32), asked).tolist() == [[1, 0, 0, 0], [0, 2, 3, 0]]


NUMBERS = st.lists(st.integers(-5, 30))


@given(NUMBERS, NUMBERS)
def test_what_is_there_is_found_and_nothing_else(known, wanted):
    ascending, asked = np.unique(np.array(known, np.int64)), np.array([wanted], np.int64)
    places, there = find(ascending, asked)
    assert places.shape == there.shape == asked.shape
    assert there[0].tolist() == [each in known for each in wanted]
    assert ascending[places[there]].tolist() == asked[there].tolist()


LISTS = st.lists(st.lists(st.integers(1, 9), max_size=4), max_size=6)


def lists(texts: Texts) -> list[list[int]]:
    return [texts.tokens[start:end].tolist() for start, end in zip(texts.offsets, texts.offsets[1:], strict=False)]


@given(LISTS, st.data())
def test_take_takes_rows_in_their_order_with_repeats(texts, data):
    rows = data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=8)) if texts else []
    taken = Texts.of(texts).take(np.array(rows, np.int32))
    assert lists(taken) == [texts[row] for row in rows]
    assert (taken.tokens.dtype, taken.offsets.dtype) == (np.int32, np.int64)
    assert taken.lengths.tolist() == [len(texts[row]) for row in rows]


@given(LISTS, LISTS)
def test_followed_by_puts_the_others_behind(texts, others):
    both = Texts.of(texts).followed_by(Texts.of(others))
    assert lists(both) == texts + others
    assert len(both) == len(texts) + len(others)
    assert (both.tokens.dtype, both.offsets.dtype) == (np.int32, np.int64)


@given(LISTS, st.integers(0, 6))
def test_padded_cuts_and_fills_up(texts, length):
    padded = Texts.of(texts).padded(length)
    assert padded.shape == (len(texts), length)
    assert padded.dtype == np.int32
    assert padded.tolist() == [(text + [0] * length)[:length] for text in texts]


def test_labels_go_with_their_texts_and_are_left_out_where_some_have_none():
    labels = np.array([[0, -1], [1, 2], [-1, -1]], np.int32)
    texts = replace(Texts.of([[1], [2, 3], []]), labels=labels)
    taken = texts.take(np.array([2, 0, 0]))
    assert taken.labels.tolist() == [[-1, -1], [0, -1], [0, -1]]
    both = taken.followed_by(texts)
    assert both.labels.tolist() == [*taken.labels.tolist(), *labels.tolist()]
    assert lists(both) == [[], [1], [1], [1], [2, 3], []]
    bare = Texts.of([[1], [2]])
    assert bare.take(np.array([1])).labels is bare.followed_by(texts).labels is texts.followed_by(bare).labels is None


def collection(documents: Labels, queries: Labels) -> Collection:
    """Texts of one word with these categories and subcategories."""
    made = collection_of(["word"] * len(documents), ["word"] * len(queries), [("q0", "d0", 1)])
    return labelled(made, documents, queries)


def test_labels_are_numbered_in_ascending_order_over_documents_and_queries():
    documents, queries = encode_labels(collection([("b", "y"), ("a", "x"), ("b", "x")], [("c", "w"), ("a", "y")]))
    assert documents.tolist() == [[1, 2], [0, 1], [1, 1]]  # "x" in two categories is one subcategory
    assert queries.tolist() == [[2, 0], [0, 2]]  # "c" and "w" are in queries only
    assert documents.dtype == queries.dtype == np.int32


def test_a_collection_without_categories():
    made = collection([(None, None)] * 3, [(None, None)])
    documents, queries = encode_labels(made)
    assert (documents == -1).all()
    assert (documents.shape, queries.shape) == ((3, 2), (1, 2))
    assert Encoder(min_count=1).encode(made)[0].label_counts == LabelCounts(0, 0)


def test_case_blanks_and_other_scripts_are_labels_of_their_own():
    names = ["Health", "health", "health ", " ", "здоровье", "健康", "3"]
    documents, _ = encode_labels(collection([(name, None) for name in names], [(None, None)]))
    assert documents[:, 0].tolist() == [sorted(names, key=str.encode).index(name) for name in names]


def test_counts_of_labels(tiny_encoded):
    assert tiny_encoded.label_counts == LabelCounts(3, 6)
    assert LabelCounts(3, 6).total == 9
    labelled = replace(Texts.of([[1], [1]]), labels=np.array([[4, -1], [-1, -1]], np.int32))
    assert label_counts(labelled, replace(Texts.of([[1]]), labels=np.array([[-1, 2]], np.int32))) == LabelCounts(5, 3)
    assert label_counts(labelled, Texts.of([[1]])) == LabelCounts(5, 0)
    assert label_counts(Texts.of([[1]]), Texts.of([])) == LabelCounts(0, 0)
    assert label_counts(replace(Texts.of([]), labels=np.zeros((0, 2), np.int32)), labelled) == LabelCounts(5, 0)


def test_the_encoder_keeps_labels(tiny, tiny_encoded):
    of_documents, of_queries = encode_labels(tiny)
    np.testing.assert_array_equal(tiny_encoded.documents.labels, of_documents)
    np.testing.assert_array_equal(tiny_encoded.queries.labels, of_queries)
    assert of_documents[[0, 2, 4, 6, 8, 10], 0].tolist() == [0, 0, 1, 1, 2, 2]
    # birds, bridges, mammals, metals, minerals, railways
    assert of_documents[[0, 2, 4, 6, 8, 10], 1].tolist() == [2, 0, 4, 3, 5, 1]
    assert of_queries.tolist() == [[0, 2], [1, 4], [2, 5], [0, 0], [1, 4], [2, 1], [1, 3], [0, 2]]


def test_labels_of_texts_without_a_category_are_bad_input():
    one = np.array([[-1, -1], [0, -1]], np.int32)
    np.testing.assert_array_equal(labels_of(replace(Texts.of([[1], [1]]), labels=one), "x"), one)
    subcategories_alone = replace(Texts.of([[1], [1]]), labels=np.array([[-1, 0], [-1, 1]], np.int32))
    for texts in (Texts.of([[1]]), subcategories_alone, replace(Texts.of([]), labels=np.zeros((0, 2), np.int32))):
        with pytest.raises(BadInput, match="origin=category: the collection has no categories"):
            labels_of(texts, "origin=category")


def test_labels_of_odd_types(tmp_path):
    """Numbers, lists and truth values are the labels that they are written as; null and nothing are none."""
    metadata = [
        {"category": 3, "subcategory": 2.5},
        {"category": "3", "subcategory": "2.5"},  # as the number
        {"category": ["a", "b"], "subcategory": {"a": 1}},
        {"category": True},
        {"category": None, "subcategory": None},
        {"category": "", "subcategory": ""},
        {"subcategory": "alone"},
        {},
        None,
    ]
    texts = [{"_id": f"t{n}", "text": "words", "metadata": each} for n, each in enumerate(metadata)]
    query = {"_id": "q0", "text": "words", "metadata": {"category": 3, "subcategory": ["x"]}}
    folder = write_texts(tmp_path / "odd", texts, [query], {"test": [("q0", "t0", 1)]})
    read = open_collection(Beir(folder), tmp_path / "cache")
    documents, queries = encode_labels(read)
    assert documents[0].tolist() == documents[1].tolist()
    assert len(set(documents[:4, 0].tolist())) == 3
    assert documents[[0, 2, 3], 0].tolist() == [0, 2, 1]  # 3, ['a', 'b'], True
    assert documents[3, 1] == -1
    assert documents[6, 0] == -1
    assert documents[6, 1] >= 0
    assert documents[[4, 5, 7, 8]].tolist() == [[-1, -1]] * 4
    assert queries[0, 0] == documents[0, 0]
    assert queries[0, 1] not in documents[:, 1]
    assert Encoder(min_count=1).encode(read)[0].label_counts == LabelCounts(3, 4)
