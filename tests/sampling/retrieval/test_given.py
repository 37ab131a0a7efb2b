"""The documents that a collection gives with its queries."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from ranking.errors import BadInput
from ranking.given import given_lists
from ranking.sources import Sources
from sampling.guard import Guard, negatives_lists
from sampling.retrieval.given import Given
from sampling.teacher import teacher_scores


def names(sources: Sources, row: np.ndarray) -> list[str]:
    return [sources.collection.documents["id"][int(each)] for each in row if each >= 0]


def test_lists_are_by_score_and_cut(tiny_sources):
    lists = given_lists(tiny_sources.collection)
    assert lists.documents.shape == (8, 4)
    assert names(tiny_sources, lists.documents[0]) == ["d1", "d5", "d7", "d9"]
    found = Given(2).rank(tiny_sources, np.array([3, 0]))
    assert names(tiny_sources, found.documents[1]) == ["d1", "d5"]
    scores = Given().own_scores(tiny_sources, np.array([0]), found.documents[1:])
    assert scores.tolist() == [[-1.0, -5.0]]


def test_the_guard_reads_its_scores(tiny_sources):
    whole, _, _ = negatives_lists(Given(), tiny_sources, Guard())
    guarded, record, _ = negatives_lists(Given(), tiny_sources, Guard(absolute=1.0))
    assert record.total > 0
    assert (whole.counts - guarded.counts).sum() == record.total


def test_without_scores_the_file_says_the_order_and_it_can_t_teach(tiny, tiny_sources):
    given = tiny.given.with_columns(score=pl.lit(None, pl.Float32))
    sources = replace(tiny_sources, collection=replace(tiny, given=given))
    assert names(sources, given_lists(sources.collection).documents[0]) == ["d7", "d5", "d1", "d9"]
    assert Given().own_scores(sources, np.arange(8), np.zeros((8, 1), np.int32)) is None
    with pytest.raises(BadInput, match=r"teacher: Given has no scores of pairs; name the column of scores"):
        teacher_scores(Given(), sources, np.arange(4), [Given().rank(sources)])


def test_queries_without_scores_stand_beside_others_with(tiny, tiny_sources):
    """As where a file that was mined and one of bare pairs are read together."""
    bare = pl.when(pl.col("query") == "q1").then(None).otherwise(pl.col("score"))
    sources = replace(tiny_sources, collection=replace(tiny, given=tiny.given.with_columns(score=bare)))
    found = Given(2).rank(sources, np.array([3]))
    scores = Given().own_scores(sources, np.array([0]), found.documents)
    assert scores.tolist() == [[-np.inf, -np.inf]]
    known = teacher_scores(Given(), sources, np.arange(4), [Given().rank(sources)])
    assert np.isnan(known.lookup(np.array([0]), found.documents)).all()
    assert known.lookup(np.array([3]), found.documents).tolist() == [[-1.0, -5.0]]


def test_a_collection_that_gives_nothing_is_refused(tiny, tiny_sources):
    sources = replace(tiny_sources, collection=replace(tiny, given=tiny.given.clear()))
    with pytest.raises(BadInput, match="lists no documents"):
        Given().rank(sources)
