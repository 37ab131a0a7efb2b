"""In-batch negatives that a guide masks: by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrite.ranking.errors import BadInput
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.ranking.training import Batch
from pyrite.sampling.guard import Guard, negatives_lists
from pyrite.sampling.retrieval.in_batch import InBatch, best_first

ANGLES = np.array([0.0, 0.3, 1.0, 2.5, 0.1])
"""Directions of the documents in the guide's plane."""
LOOKS = np.array([0.05, 0.6, 1.1, 2.6])
"""Directions of the queries: their cosines with a document are those of the differences."""


class Guide:
    """Vectors in a plane, and a count of the times that they were read."""

    def __init__(self) -> None:
        self.read = 0

    def vectors(self, sources: Any, documents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.read += 1
        planes = [np.stack([np.cos(each), np.sin(each)], 1) for each in (LOOKS, ANGLES[documents])]
        return planes[0].astype(np.float32), planes[1].astype(np.float32)


class Texts:
    def __init__(self, encoded: Any) -> None:
        self.encoded = encoded


@pytest.fixture
def sources(encoded_of):
    """Four queries with documents 0 to 3 as positives; query 0 judges document 1 relevant too. Document 4 is no
    positive.
    """
    return Texts(encoded_of([[d] for d in range(5)], [[1]] * 4, {0: {0: 1, 1: 1}, 1: {1: 1}, 2: {2: 1}, 3: {3: 1}}))


def masked(function: InBatch, sources: Any) -> list[list[int]]:
    lists = negatives_lists(function, sources, Guard()).lists
    assert lists is not None
    return [[d for d in row if d >= 0] for row in lists.documents.tolist()]


def test_what_the_guide_scores_above_the_positive_is_masked(sources):
    """Query 1 looks at .6: its positive is .3 away, document 2 .4. Query 2 is .1 from its own."""
    guide = Guide()
    function = InBatch(guard=Guard(relative=0.0, ranker=guide))
    assert masked(function, sources) == [[], [], [], []]
    # cos .3 − .1 = .855: within it are document 2 (cos .4 = .92) and not 0 (cos .6 = .83).
    strict = InBatch(guard=Guard(absolute=0.1, ranker=guide))
    assert masked(strict, sources) == [[], [2], [], []]
    # Of query 0 the lowest positive is document 1 (cos .25), the best document 0: 2 is .95 away, cos .58.
    wide = Guard(absolute=0.4, ranker=guide)
    assert masked(InBatch(guard=wide), sources) == [[2], [2, 0], [1], []]
    assert masked(InBatch(guard=replace(wide, positive="best")), sources) == [[], [2, 0], [1], []]
    assert masked(InBatch(guard=replace(wide, deepest=1)), sources) == [[2], [2], [1], []]
    # Documents that others mined may be offered too, so that all are read.
    assert masked(InBatch(hard=True, guard=wide), sources) == [[4, 2], [2, 4, 0], [1], []]


def test_masked_documents_are_never_offered_and_are_counted(sources):
    guide = Guide()
    function = InBatch(guard=Guard(absolute=0.4, ranker=guide))
    made = negatives_lists(function, sources, Guard())
    assert made.dropped.total == 4
    assert dict(zip(made.dropped.queries.tolist(), made.dropped.documents.tolist(), strict=True)) == {0: 2, 1: 2, 2: 1}
    again = negatives_lists(function, sources, Guard(), np.array([2]))
    assert again.lists.documents.tolist() == [[1]]
    assert guide.read == 1
    function.prepare(sources.encoded, made.lists)
    batch = Batch(np.arange(4), np.arange(4, dtype=np.int32))
    offered = function.sample(batch, 3, np.random.default_rng(0)).documents
    assert [sorted(d for d in row if d >= 0) for row in offered.tolist()] == [[1, 3], [3], [0, 3], [0, 1, 2]]
    part = function.sample(batch.part(np.array([1])), 3, np.random.default_rng(0)).documents
    assert sorted(d for d in part[0].tolist() if d >= 0) == [3]
    function.prepare(sources.encoded, None)
    assert (function.sample(batch, 3, np.random.default_rng(0)).documents >= 0).all()


def test_a_guard_without_a_guide_is_refused(sources):
    with pytest.raises(BadInput, match="documents of a batch have no scores to compare"):
        InBatch(guard=Guard(relative=0.05))
    with pytest.raises(BadInput, match="positive=own"):
        negatives_lists(InBatch(guard=Guard(relative=0.0, positive="own", ranker=Guide())), sources, Guard())


def test_the_best_are_written_first():
    ranked = RankedLists(np.array([[7, 8, 9]], np.int32), np.array([[0.5, 0.9, 0.9]], np.float32))
    lists = RankedLists.empty(2, 2)
    best_first(ranked, np.array([[True, True, True]]), lists, 1)
    assert lists.documents.tolist() == [[-1, -1], [8, 9]]
    assert lists.scores[1].tolist() == pytest.approx([0.9, 0.9])


@given(
    st.floats(-10, 10, width=32), st.none() | st.floats(0, 5), st.none() | st.floats(0, 1), st.none() | st.floats(-9, 9)
)
def test_no_limit_is_above_the_positive(positive, absolute, relative, ceiling):
    """A share of a score below zero lowers the limit too (sentence-transformers#3819)."""
    limit = Guard(absolute=absolute, relative=relative, ceiling=ceiling).below(np.array([positive], np.float32))
    if absolute is not None or relative is not None:
        assert limit[0] <= np.float32(positive)
    assert Guard(relative=0.05).below(np.array([-0.5], np.float32))[0] == pytest.approx(-0.525)
