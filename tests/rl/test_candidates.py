"""Tests of `rl.candidates`: what an agent sees of each document that it may pick."""

import numpy as np
import polars as pl
import pytest

from ranking.collections.collection import Collection
from ranking.encoding import Encoder
from ranking.ranked_lists import RankedLists
from ranking.sources import Sources
from ranking.vectors import RandomVectors
from rl.candidates import candidate_table
from tests.rl.documents import nearest


def sources_of(documents: list[str], queries: list[str], min_count: int = 1) -> Sources:
    """A collection of these texts, without judgements."""
    collection = Collection(
        "made up",
        "0123456789abcdef",
        pl.DataFrame({"id": [f"d{n}" for n in range(len(documents))], "text": documents}),
        pl.DataFrame({"id": [f"q{n}" for n in range(len(queries))], "text": queries, "split": "train"}),
        pl.DataFrame(schema={"query": pl.String, "document": pl.String, "grade": pl.Int32}),
    )
    encoded, words = Encoder(min_count=min_count).encode(collection)
    return Sources(collection, encoded, RandomVectors(4).read(words))


def lists_of(documents: list[list[int]], scores: list[list[float]]) -> RankedLists:
    return RankedLists(np.array(documents, np.int32), np.array(scores, np.float32))


def test_the_matrix_of_a_query_by_hand():
    sources = sources_of(
        ["night trains and night boats", "trains run", "a red garden"], ["night trains", "a garden of trains"]
    )
    lists = lists_of([[2, 0, 1], [1, -1, -1]], [[0.5, 0.25, -0.75], [1.5, -np.inf, -np.inf]])
    table = candidate_table(lists, sources, 4)
    assert table.shape == (2, 4, 5)
    # "a red garden": no term of the query, three words, and BM25 does not find it.
    assert table[0, 0].tolist() == pytest.approx([0, 3 / 103, 3 / 63, 0.5, 0])
    # Night, trains and night again, of five words four different ones; BM25's first. The other one is its second.
    assert table[0, 1].tolist() == pytest.approx([3 / 7, 5 / 105, 4 / 64, 0.25, 1.0])
    assert table[0, 2].tolist() == pytest.approx([1 / 5, 2 / 102, 2 / 62, -0.75, 0.99])
    # What rounding leaves above a cosine of 1 is cut; behind a list's end there is nothing.
    assert table[1, 0].tolist() == pytest.approx([1 / 5, 2 / 102, 2 / 62, 1.0, 0.99])
    assert not table[0, 3].any()
    assert not table[1, 1:].any()


def test_words_without_an_id_are_no_common_term():
    sources = sources_of(["lion night", "night night"], ["zebra night"], min_count=2)
    table = candidate_table(lists_of([[0, 1]], [[0.0, 0.0]]), sources, 2)
    assert table[0, :, 0].tolist() == pytest.approx([1 / 5, 2 / 6])


def test_a_table_is_cut_to_the_head_of_the_lists(tiny_sources):
    lists = nearest(tiny_sources).lists
    whole, head = (candidate_table(lists, tiny_sources, documents) for documents in (8, 3))
    assert np.array_equal(whole[:, :3], head)
    assert np.abs(whole).max() <= 1
