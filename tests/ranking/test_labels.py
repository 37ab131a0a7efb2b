from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from ranking.collections.beir import Beir
from ranking.collections.cache import open_collection
from ranking.collections.collection import Collection
from ranking.encoding import Encoder
from ranking.errors import BadInput
from ranking.labels import LabelCounts, encode_labels, label_counts, labels_of
from ranking.texts import Texts
from tests.made_up import write_texts

Pairs = Sequence[tuple[str | None, str | None]]


def collection(documents: Pairs, queries: Pairs) -> Collection:
    """Texts of one word with these categories and subcategories."""

    def frame(pairs: Pairs) -> pl.DataFrame:
        rows = [(f"t{place}", "word", "train", *pair) for place, pair in enumerate(pairs)]
        schema = ("id", "text", "split", "category", "subcategory")
        return pl.DataFrame(rows, schema=dict.fromkeys(schema, pl.String), orient="row")

    judgements = pl.DataFrame({"query": ["t0"], "document": ["t0"], "grade": [1]}).cast({"grade": pl.Int32})
    return Collection("made", "0" * 16, frame(documents).drop("split"), frame(queries), judgements)


def test_labels_are_numbered_in_ascending_order_over_documents_and_queries():
    made = collection([("b", "y"), ("a", "x"), ("b", "x")], [("c", "w"), ("a", "y")])
    documents, queries = encode_labels(made)
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
    expected = [sorted(names, key=str.encode).index(name) for name in names]
    assert documents[:, 0].tolist() == expected


def test_counts(tiny_encoded):
    assert tiny_encoded.label_counts == LabelCounts(3, 6)
    assert LabelCounts(3, 6).total == 9
    labelled = replace(Texts.of([[1], [1]]), labels=np.array([[4, -1], [-1, -1]], np.int32))
    other = replace(Texts.of([[1]]), labels=np.array([[-1, 2]], np.int32))
    assert label_counts(labelled, other) == LabelCounts(5, 3)
    assert label_counts(labelled, Texts.of([[1]])) == LabelCounts(5, 0)
    assert label_counts(Texts.of([[1]]), Texts.of([])) == LabelCounts(0, 0)
    nobody = replace(Texts.of([]), labels=np.zeros((0, 2), np.int32))
    assert label_counts(nobody, labelled) == LabelCounts(5, 0)


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
    nothing = replace(Texts.of([]), labels=np.zeros((0, 2), np.int32))
    for texts in (Texts.of([[1]]), subcategories_alone, nothing):
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
    assert documents[4:6].tolist() == [[-1, -1]] * 2
    assert documents[6, 0] == -1
    assert documents[6, 1] >= 0
    assert documents[7:].tolist() == [[-1, -1]] * 2
    assert queries[0, 0] == documents[0, 0]
    assert queries[0, 1] not in documents[:, 1]
    assert Encoder(min_count=1).encode(read)[0].label_counts == LabelCounts(3, 4)
