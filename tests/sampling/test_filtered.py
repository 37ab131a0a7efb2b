"""What selectors see of a function, and what they may pick."""

from typing import Any

import numpy as np
import pytest

from ranking.encoding import EncodedCollection
from ranking.errors import BadInput
from ranking.ranked_lists import RankedLists
from ranking.training import Batch, RankerTraining
from sampling.filtered import FilteredFunction
from sampling.policies.fixed import Fixed
from sampling.policies.mixture import Mixture
from sampling.relevant_pairs import RelevantPairs
from sampling.retrieval.bm25 import Bm25Function
from sampling.retrieval.function import CandidateBatch, RetrievalFunction
from sampling.retrieval.random import RandomFunction
from sampling.sampler import Sampler
from sampling.selection.selector import Selector
from sampling.selection.shared import Shared
from sampling.selection.top import Top
from sampling.selection.uniform import Uniform
from tests.sampling.batches import batch_of, listed, steps


@pytest.fixture
def encoded(encoded_of) -> EncodedCollection:
    return encoded_of([[1]] * 8, [[1]] * 2, {0: {3: 1, 5: 2, 6: 0}})


def test_the_head_of_a_list_without_relevant_and_taken_documents(encoded):
    function = listed([[3, 1, 5, 0, 2, 4], [3, 1]], encoded=encoded)
    pairs, rng = RelevantPairs(encoded), np.random.default_rng(0)
    top = FilteredFunction(function, pairs).top(batch_of(0, 1), 3, rng)
    assert top.documents.tolist() == [[1, 0, 2], [3, 1, -1]]
    assert top.scores.tolist() == [[-1, -3, -4], [0, -1, -np.inf]]
    taken = FilteredFunction(function, pairs, np.array([[0, 1], [-1, -1]], np.int32))
    assert taken.top(batch_of(0, 1), 3, rng).documents.tolist() == [[2, 4, -1], [3, 1, -1]]
    with pytest.raises(ValueError, match="whole batch"):
        taken.top(batch_of(0), 3, rng)


def test_draws_stay_uniform_over_what_is_left(encoded):
    function = listed([[3, 1, 5, 0, 2, 4, 7]], encoded=encoded)
    offered = FilteredFunction(function, RelevantPairs(encoded), np.full((30_000, 1), 7, np.int32))
    documents = offered.sample(batch_of(np.zeros(30_000, int)), 2, np.random.default_rng(0)).documents
    pairs, counts = np.unique(np.sort(documents, axis=1), axis=0, return_counts=True)
    assert pairs.tolist() == [[0, 1], [0, 2], [0, 4], [1, 2], [1, 4], [2, 4]]
    assert counts == pytest.approx([5000] * 6, rel=0.06)


def test_a_part_of_a_batch_knows_the_whole():
    batch = batch_of(0, 1, 2)
    part = batch.part(np.array([2, 0]))
    assert part.queries.tolist() == [2, 0]
    assert part.whole is batch
    assert part.part(np.array([1])).whole is batch


class Picking(Selector):
    """Picks what it was told, or returns nothing."""

    def __init__(self, documents: list[list[int]]) -> None:
        self.documents = np.array(documents, np.int32)

    def select(self, batch: Batch, function: Any, count: int, training: Any, rng: Any) -> Any:
        scores = np.zeros(self.documents.shape, np.float32)
        return CandidateBatch(self.documents, scores) if self.documents.size else None


@pytest.mark.parametrize(
    ("picked", "says"),
    [
        ([[0, 1], [1, "positive"]], "Picking over bm25 picked a document that is judged relevant for its query"),
        ([[0, 1], [2, 2]], "Picking over bm25 picked a document twice"),
        ([[0, 1, 2], [1, 2, 3]], "Picking over bm25 picked 3 documents per query instead of 2"),
        ([[0, 1], [1, 12]], "Picking over bm25 picked a document that is not in the collection"),
        ([[0, 1]], r"Picking over bm25 picked documents of shape \(1, 2\) for 2 queries"),
        ([], "Picking over bm25 picked NoneType, not a CandidateBatch"),
    ],
)
def test_a_selector_that_breaks_its_promise_is_named(picked, says, tiny_training):
    training = tiny_training()
    batch = training.next_batch()
    rows = [[int(batch.positives[row]) if d == "positive" else d for d in ds] for row, ds in enumerate(picked)]
    function = listed([[0, 1, 2]] * 8, encoded=training.encoded)
    one = Sampler(Fixed(), {"bm25": function}, Picking(rows), 2, np.random.default_rng(0))
    with pytest.raises(BadInput, match=says):
        one.negatives(batch, training)


@pytest.mark.parametrize(
    ("documents", "scores", "says"),
    [
        ([[0.0], [1.0]], [[0.0], [0.0]], "Offering offered documents as float64; give an array of int32"),
        ([[0], [12]], [[0.0], [0.0]], "Offering offered a document that is not in the collection; use −1 for none"),
        ([[0, 1]], [[0.0, 0.0]], r"Offering offered documents of shape \(1, 2\) for 2 queries"),
        ([[0], [1]], [0.0, 0.0], r"offered scores of shape \(2,\) for documents of shape \(2, 1\); give nan"),
    ],
)
def test_a_function_that_offers_something_else_is_named(documents, scores, says, tiny_training):
    class Offering(RetrievalFunction):
        def prepare(self, encoded: Any, lists: Any) -> None: ...

        def sample(self, batch: Batch, count: int, rng: Any) -> CandidateBatch:
            return CandidateBatch(np.array(documents), np.array(scores, np.float32))

        top = sample

    training = tiny_training()
    one = Sampler(Fixed(), {"own": Offering()}, Uniform(), 1, np.random.default_rng(0))
    with pytest.raises(BadInput, match=says):
        one.negatives(training.next_batch(), training)


def test_a_selector_that_repeats_another_functions_document_is_named(tiny_training):
    training = tiny_training()
    batch = batch_of(6)
    functions: dict[str, RetrievalFunction] = {name: listed([[0, 1, 2]] * 8, encoded=training.encoded) for name in "ab"}
    one = Sampler(Mixture(per="negative"), functions, Picking([[1]]), 2, np.random.default_rng(0))
    with pytest.raises(BadInput, match="Picking over b picked a document that another function has supplied"):
        one.negatives(batch, training)


@pytest.mark.parametrize("selector", [Uniform(), Top(), Shared()])
def test_lists_with_relevant_documents_in_them_do_no_harm(selector, tiny_training, tiny_sources):
    """Whoever forgets to take relevant documents out of a function's lists trains on none of them."""
    training, function = tiny_training(), Bm25Function(depth=12)
    lists = function.rank(tiny_sources)
    assert training.encoded.judgements.relevant().lookup(np.arange(8), lists.documents).any()
    function.prepare(training.encoded, lists)
    functions: dict[str, RetrievalFunction] = {"bm25": function, "random": RandomFunction()}
    functions["random"].prepare(training.encoded, None)
    one = Sampler(Mixture(per="negative"), functions, selector, 6, np.random.default_rng(0))
    shown = steps(one, training, 12)  # of which none is relevant, and none twice
    assert all(max(row) >= 0 for batch in shown for row in batch)


def test_an_epoch_without_a_negative_is_refused(tiny_training):
    training = tiny_training()
    function = Bm25Function()
    function.prepare(training.encoded, RankedLists(np.full((8, 3), -1, np.int32), np.full((8, 3), -np.inf, np.float32)))
    one = Sampler(Fixed(), {"bm25": function}, Uniform(), 2, np.random.default_rng(0))
    with pytest.raises(BadInput, match=r"no query had a negative in the whole epoch \(Uniform over bm25\)"):
        training.fit(one)
    assert training.epoch == 0


def test_negatives_before_an_interrupt_count_for_their_epoch(tiny_training):
    """An epoch whose only negatives came before an interrupt is not refused after it."""

    def made() -> tuple[RankerTraining, Sampler]:
        training = tiny_training()
        first = int(training.next_batch().queries[0])
        function = listed([[9, 10, 11] if query == first else [] for query in range(8)], encoded=training.encoded)
        return training, Sampler(Fixed(), {"bm25": function}, Uniform(), 2, np.random.default_rng(0))

    training, one = made()
    batch = training.next_batch()
    negatives = one.negatives(batch, training)
    assert (negatives >= 0).any()
    one.observe(negatives, training.update(batch, negatives))
    state = one.state_dict()
    assert state["given"] == np.count_nonzero(negatives >= 0)
    _, other = made()
    other.load_state_dict(state)
    while not training.epoch_over:
        batch = training.next_batch()
        negatives = other.negatives(batch, training)
        other.observe(negatives, training.update(batch, negatives))
