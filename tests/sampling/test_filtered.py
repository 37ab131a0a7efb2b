"""What selectors see of a function and may pick, what the guard leaves out, and scores of a teacher."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.errors import BadInput
from pyrite.ranking.pair_scores import PairScores
from pyrite.ranking.ranked_lists import RankedLists, stack_lists
from pyrite.ranking.sources import Sources
from pyrite.ranking.training import Batch, RankerTraining
from pyrite.sampling import teacher as teaching
from pyrite.sampling.filtered import FilteredFunction
from pyrite.sampling.guard import Guard, negatives_lists, positive_scores
from pyrite.sampling.guarded_documents import REASONS
from pyrite.sampling.policies.fixed import Fixed
from pyrite.sampling.policies.mixture import Mixture
from pyrite.sampling.relevant_pairs import RelevantPairs
from pyrite.sampling.retrieval import given, run_file
from pyrite.sampling.retrieval.bm25 import BM25
from pyrite.sampling.retrieval.function import CandidateBatch, RetrievalFunction
from pyrite.sampling.retrieval.random import Random
from pyrite.sampling.retrieval.ranked import Ranked
from pyrite.sampling.sampler import Sampler
from pyrite.sampling.selection.selector import Selector
from pyrite.sampling.selection.shared import Shared
from pyrite.sampling.selection.top import Top
from pyrite.sampling.selection.uniform import Uniform
from pyrite.sampling.teacher import teacher_scores
from tests.sampling.batches import batch_of, listed, prepared, steps


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


def test_many_barred_documents_are_left_out_and_few_more_are_requested(encoded_of):
    encoded = encoded_of([[1]] * 400, [[1]], {0: {0: 1}})
    barred, requested = np.arange(1, 397), []

    class Counted(Random):
        def sample(self, batch, count, rng):
            requested.append(count)
            return super().sample(batch, count, rng)

    offered = FilteredFunction(prepared(Counted(), encoded), RelevantPairs(encoded), None, barred)
    rng, seen = np.random.default_rng(0), []
    for _ in range(60):
        seen += offered.sample(batch_of(0), 2, rng).documents[0].tolist()
    assert set(seen) == {397, 398, 399}  # if it has to, it requests all
    assert np.bincount(seen)[397:] == pytest.approx([40] * 3, abs=16)
    requested.clear()
    few = FilteredFunction(prepared(Counted(), encoded), RelevantPairs(encoded), None, barred[::4])
    documents = few.sample(batch_of(np.zeros(300, int)), 2, rng).documents
    assert not np.isin(documents, np.append(barred[::4], 0)).any()
    assert (documents >= 0).all()
    assert max(requested) <= 2 + 1 + 16


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


class Own(RetrievalFunction):
    """A function as users write them, which offers what it was told."""

    def __init__(self, documents: object = (), scores: object = ()) -> None:
        self.documents, self.scores = np.array(documents), np.array(scores, np.float32)

    def prepare(self, encoded: Any, lists: Any) -> None: ...

    def sample(self, batch: Batch, count: int, rng: Any) -> CandidateBatch:
        return CandidateBatch(self.documents, self.scores)

    top = sample

    def rank(self, sources: Any, queries: Any = None, depth: int | None = None) -> Any:
        return np.zeros((2, 3))


@pytest.mark.parametrize(
    ("documents", "scores", "says"),
    [
        ([[0.0], [1.0]], [[0.0], [0.0]], "Own offered documents as float64; give an array of int32"),
        ([[0], [12]], [[0.0], [0.0]], "Own offered a document that is not in the collection; use −1 for none"),
        ([[0, 1]], [[0.0, 0.0]], r"Own offered documents of shape \(1, 2\) for 2 queries"),
        ([[1, 1]] * 2, [[0.0, 0.0]] * 2, "function: Own offered a document twice for one query; draw distinct"),
        ([[0], [1]], [0.0, 0.0], r"offered scores of shape \(2,\) for documents of shape \(2, 1\); give nan"),
    ],
)
def test_a_function_that_offers_something_else_is_named(documents, scores, says, tiny_training):
    training = tiny_training()
    training.encoded = replace(training.encoded, content=None)  # no two texts are equal
    one = Sampler(Fixed(), {"own": Own(documents, scores)}, Uniform(), 2, np.random.default_rng(0))
    with pytest.raises(BadInput, match=says):
        one.negatives(training.next_batch(), training)


def test_lists_of_a_users_function_that_are_none_are_named(tiny_sources):
    with pytest.raises(BadInput, match=r"^Own\.depth: is 0, and the function ranks; set it to the length"):
        negatives_lists(Own(), tiny_sources, Guard())
    function = Own()
    function.depth = 3
    with pytest.raises(BadInput, match=r"^Own.rank: returned ndarray for \d+ queries; return RankedLists"):
        negatives_lists(function, tiny_sources, Guard())


def test_negatives_can_not_be_changed_after_they_were_checked(tiny_training):
    training = tiny_training()
    function = listed([[0, 1, 2]] * 8, encoded=training.encoded)
    one = Sampler(Fixed(), {"own": function}, Uniform(), 1, np.random.default_rng(0))
    with pytest.raises(ValueError, match="read-only"):
        one.negatives(training.next_batch(), training)[0] = 0


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
    training, function = tiny_training(), BM25(depth=12)
    lists = function.rank(tiny_sources)
    assert training.encoded.judgements.relevant().lookup(np.arange(8), lists.documents).any()
    function.prepare(training.encoded, lists)
    functions = {"bm25": function, "random": prepared(Random(), training.encoded)}
    one = Sampler(Mixture(per="negative"), functions, selector, 6, np.random.default_rng(0))
    shown = steps(one, training, 12)  # of which none is relevant, and none twice
    assert all(max(row) >= 0 for batch in shown for row in batch)


def test_an_epoch_without_a_negative_is_refused(tiny_training):
    training = tiny_training()
    function = BM25()
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


SCORES = np.array(
    [
        [5.0, 10.0, 9.5, 9.0, 8.0, 4.0],  # relevant: 0 and 1, so the limit comes from 10
        [-2.0, -1.0, -1.5, -3.0, -9.0, 4.0],  # relevant: 0, so from −2
        [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],  # relevant: nothing
    ],
    np.float32,
)


class Known(Ranked):
    """Ranks by `SCORES`."""

    def search(self, sources: Sources, queries: Any, depth: int) -> RankedLists:
        rows = SCORES[queries]
        orders = [np.argsort(-row, kind="stable") for row in rows]
        return stack_lists([(order, row[order]) for order, row in zip(orders, rows, strict=True)], depth)

    def own_scores(self, sources: Sources, queries: Any, documents: Any) -> Any:
        return np.where(documents < 0, -np.inf, SCORES[queries[:, None], documents]).astype(np.float32)


@pytest.fixture
def sources(encoded_of) -> Sources:
    encoded = encoded_of([[1]] * 6, [[1]] * 3, {0: {0: 1, 1: 1, 4: 0}, 1: {0: 2}})
    return Sources(None, encoded, None)


def guarded_lists(guard: Guard, sources: Sources) -> tuple[list[list[int]], int]:
    lists, guarded, _ = negatives_lists(Known(depth=6), sources, guard)
    assert np.array_equal(lists.documents >= 0, np.isfinite(lists.scores))
    return [[document for document in row if document >= 0] for row in lists.documents.tolist()], guarded.total


def test_the_positive_is_the_lowest_unless_another_is_chosen(sources):
    """Query 0 has the relevant documents 0 (5) and 1 (10): nothing but 5 (4) is below the lowest."""
    assert positive_scores(Known(depth=6), sources, Guard()).tolist() == [5, -2, np.inf]
    assert positive_scores(Known(depth=6), sources, Guard(positive="best"), np.arange(3)).tolist() == [10, -2, np.inf]
    assert positive_scores(Known(depth=6), sources, Guard(positive="best"), np.array([1])).tolist() == [-2]
    assert guarded_lists(Guard(relative=0.1), sources)[0][0] == [5]
    assert guarded_lists(Guard(relative=0.1, positive="lowest"), sources)[0][0] == [5]
    with pytest.raises(BadInput, match="choose lowest or best"):
        guarded_lists(Guard(relative=0.1, positive="own"), sources)
    with pytest.raises(BadInput, match="positive is 'first'"):
        Guard(positive="first")


def test_mined_rows_are_compared_with_their_positive_and_keep_their_ranks(sources):
    queries, positives = np.array([0, 0, 1]), np.array([0, 1, 0])
    lists, _, ranks = negatives_lists(Known(depth=6), sources, Guard(relative=0.1), queries, positives)
    assert [[d for d in row if d >= 0] for row in lists.documents.tolist()] == [[5], [3, 4, 5], [3, 4]]
    # Without the guard: 2, 3, 4, 5 and 5, 1, 2, 3, 4.
    assert [[r for r in row if r] for row in ranks.tolist()] == [[4], [2, 3, 4], [4, 5]]


@pytest.mark.parametrize(
    ("guard", "first", "second", "guarded"),
    [
        (Guard(), [2, 3, 4, 5], [5, 1, 2, 3, 4], 0),  # the relevant alone are left out
        (Guard(positive="best", absolute=0), [2, 3, 4, 5], [3, 4], 3),
        (Guard(positive="best", absolute=1), [3, 4, 5], [3, 4], 4),
        (Guard(positive="best", absolute=1.5), [4, 5], [4], 6),
        (Guard(positive="best", relative=0), [2, 3, 4, 5], [3, 4], 3),
        (Guard(positive="best", relative=0.1), [3, 4, 5], [3, 4], 4),
        (Guard(positive="best", relative=0.55), [5], [4], 7),  # limits 4.5 and −3.1
        (Guard(positive="best", absolute=0.5, relative=0.2), [4, 5], [3, 4], 5),  # the lower one counts: 8, and −2.5
        (Guard(positive="best", absolute=100), [], [], 9),
    ],
)
def test_margins(guard, first, second, guarded, sources):
    lists, count = guarded_lists(guard, sources)
    assert lists == [first, second, [5, 4, 3, 2, 1, 0]]  # nothing is known of the query without a relevant document
    assert count == guarded


def test_functions_without_lists_are_left_alone(sources):
    lists, guarded, _ = negatives_lists(Random(), sources, Guard(positive="best", absolute=1))
    assert lists is None
    assert guarded.total == len(guarded.queries) == 0


def test_lists_are_as_long_as_asked_for_but_filled_no_further_than_the_deepest_rank(sources):
    """What is left out is made up for from further down, as far as the function ranks anything."""
    lists, none, _ = negatives_lists(Known(depth=2), sources, Guard())
    assert lists.documents.tolist() == [[2, 3], [5, 1], [5, 4]]
    assert none.total == 0
    lists, guarded, _ = negatives_lists(Known(depth=2), sources, Guard(positive="best", absolute=1))
    assert lists.documents.tolist() == [[3, 4], [3, 4], [5, 4]]  # limits 9 and −3: the third and fourth of their lists
    assert lists.scores.tolist() == [[9, 8], [-3, -9], [6, 5]]
    assert guarded.total == 4
    lists, guarded, _ = negatives_lists(Known(depth=2), sources, Guard(positive="best", absolute=1, deepest=3))
    assert lists.documents.tolist() == [[3, -1], [-1, -1], [5, 4]]  # of 1, 2, 3; of 5, 1, 2; of 5, 4, 3
    assert guarded.total == 4


def test_what_was_dropped_and_why(sources):
    _, guarded, _ = negatives_lists(Known(depth=6), sources, Guard(positive="best", absolute=0.5, relative=0.2))
    reasons = [REASONS[reason] for reason in guarded.reasons]
    told = list(zip(guarded.queries, guarded.documents, guarded.scores, guarded.positives, reasons, strict=True))
    above, relative = "scores above the positive", "within the relative margin"
    assert told == [
        (0, 2, 9.5, 10, relative), (0, 3, 9, 10, relative),
        (1, 5, 4, -2, above), (1, 1, -1, -2, above), (1, 2, -1.5, -2, above),
    ]  # fmt: skip
    assert guarded.total == 5
    _, guarded, _ = negatives_lists(Known(depth=6), sources, Guard(positive="best", absolute=1.5))
    absolute = "within the absolute margin"
    assert [REASONS[reason] for reason in guarded.reasons] == [absolute, absolute, above, above, above, absolute]
    _, guarded, _ = negatives_lists(Known(depth=6), sources, Guard(positive="best", relative=0.1))
    assert [REASONS[reason] for reason in guarded.reasons] == [relative, above, above, above]
    # Of a query no more is written down than its list is long.
    _, guarded, _ = negatives_lists(Known(depth=1), sources, Guard(positive="best", relative=0.55))
    assert (guarded.total, len(guarded.queries)) == (7, 2)
    assert guarded.queries.tolist() == [0, 1]


def test_a_function_that_finds_no_relevant_document_drops_nothing(sources):
    class Lost(Known):
        def own_scores(self, sources: Sources, queries: Any, documents: Any) -> Any:
            return np.full(documents.shape, -np.inf, np.float32)

    lists, guarded, _ = negatives_lists(Lost(depth=6), sources, Guard(positive="best", absolute=100))
    assert lists.counts.tolist() == [4, 5, 6]
    assert (guarded.total, guarded.unlimited) == (0, 2)  # the third query has no relevant document
    _, guarded, _ = negatives_lists(Known(depth=6), sources, Guard(absolute=100))
    assert guarded.unlimited == 0


def test_a_ceiling_is_on_the_scale_of_the_scores(sources):
    lists, dropped = guarded_lists(Guard(positive="best", ceiling=4.0), sources)
    assert lists == [[5], [5, 1, 2, 3, 4], [3, 2, 1, 0]]
    assert dropped == 5
    _, guarded, _ = negatives_lists(Known(depth=6), sources, Guard(positive="best", absolute=0.7, ceiling=8.5))
    of_first = [REASONS[reason] for reason in guarded.reasons[guarded.queries == 0]]
    assert of_first == ["within the absolute margin", "above the ceiling"]


class Opposite:
    """A ranker that likes what `SCORES` does not."""

    def own_scores(self, sources: Sources, queries: Any, documents: Any) -> Any:
        return np.where(documents < 0, -np.inf, -SCORES[queries[:, None], documents]).astype(np.float32)


def test_a_ranker_says_what_is_dropped_and_the_function_in_what_order(sources):
    """To query 0's relevant documents it gives −5 and −10, so that only what has less than −5 may be shown."""
    lists, guarded, _ = negatives_lists(
        Known(depth=6), sources, Guard(positive="best", absolute=0.0, ranker=Opposite())
    )
    assert lists.documents[0].tolist() == [2, 3, 4, -1, -1, -1]
    assert lists.scores[0, :3].tolist() == [9.5, 9, 8]
    assert guarded.documents[guarded.queries == 0].tolist() == [5]
    assert (guarded.scores[0], guarded.positives[0]) == (-4, -5)
    # With a margin of 6 it would have dropped document 1 as well, which is relevant: −10 > −5 − 6.
    _, wider, _ = negatives_lists(Known(depth=6), sources, Guard(positive="best", absolute=6.0, ranker=Opposite()))
    assert (guarded.relevant, wider.relevant) == (0, 1)
    # Compared with the lowest, −10, document 0 would have been dropped.
    _, lowest, _ = negatives_lists(Known(depth=6), sources, Guard(absolute=0.0, ranker=Opposite()))
    assert lowest.relevant == 1
    with pytest.raises(BadInput, match="a ranker without a margin"):
        Guard(ranker=Opposite())


def test_pairs_are_found_and_others_are_nan():
    known = PairScores.of(np.array([2, 0, 0]), np.array([1, 3, 0]), np.array([5.0, -np.inf, 7.0]), 4)
    found = known.lookup(np.array([0, 2, 1]), np.array([[0, 3], [1, -1], [1, 0]]))
    np.testing.assert_array_equal(found, np.array([[7, np.nan], [5, np.nan], [np.nan, np.nan]], np.float32))
    nothing = PairScores.of(np.zeros(0, int), np.zeros(0, int), np.zeros(0), 4)
    assert np.isnan(nothing.lookup(np.array([0]), np.array([[1]]))).all()


def test_bm25_teaches_what_is_relevant_and_what_lists_hold(tiny_sources):
    teacher, function = BM25(), BM25(depth=3)
    lists, _, _ = negatives_lists(function, tiny_sources, Guard())
    queries = np.arange(4)
    known = teacher_scores(teacher, tiny_sources, queries, [lists])
    np.testing.assert_allclose(
        known.lookup(queries, lists.documents[:4])[lists.documents[:4] >= 0],
        lists.scores[:4][lists.documents[:4] >= 0],
        rtol=1e-6,
    )
    relevant = tiny_sources.encoded.judgements.relevant()
    own = [relevant.of(query)[0][:1] for query in queries]
    expected = teacher.own_scores(tiny_sources, queries, np.stack(own))
    found = known.lookup(queries, np.stack(own))
    assert np.isfinite(expected).any()
    np.testing.assert_allclose(found[np.isfinite(expected)], expected[np.isfinite(expected)])
    assert np.isnan(found[~np.isfinite(expected)]).all()
    assert np.isnan(known.lookup(np.array([5]), lists.documents[5:6])).all()  # nobody asked about this query


def test_what_was_given_is_sorted_once_however_often_it_is_asked(tiny_sources, tmp_path, monkeypatch):
    """64 queries at a time: anew each time would take as often as long for twice the queries."""
    (tmp_path / "a.run").write_text("q1 Q0 d5 1 3.5 x\nq2 Q0 d7 1 2.5 x\n")
    calls: list[str] = []

    def counted(name: str, of: Any) -> Any:
        def call(*arguments: Any) -> Any:
            calls.append(name)
            return of(*arguments)

        return call

    monkeypatch.setattr(teaching, "CHUNK", 1)
    monkeypatch.setattr(given, "given_lists", counted("given", given.given_lists))
    monkeypatch.setattr(run_file, "PairScores", SimpleNamespace(of=counted("run", PairScores.of)))
    for teacher, name, score in (
        (given.Given(), "given", -5.0),
        (run_file.RunFile(path=str(tmp_path / "a.run")), "run", 3.5),
    ):
        lists = teacher.rank(tiny_sources)
        known = teacher_scores(teacher, tiny_sources, np.arange(8), [lists])
        place = tiny_sources.collection.documents["id"].to_list().index("d5")
        assert known.lookup(np.array([0]), np.array([[place]])) == score
        assert calls.count(name) == 1
