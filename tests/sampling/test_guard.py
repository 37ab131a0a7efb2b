from typing import Any

import numpy as np
import pytest

from ranking.errors import BadInput
from ranking.ranked_lists import RankedLists, stack_lists
from ranking.sources import Sources
from sampling.guard import Guard, negatives_lists, positive_scores
from sampling.guarded_documents import REASONS
from sampling.retrieval.random import RandomFunction
from sampling.retrieval.ranked import Ranked

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


def listed(guard: Guard, sources: Sources) -> tuple[list[list[int]], int]:
    lists, guarded, _ = negatives_lists(Known(6), sources, guard)
    assert np.array_equal(lists.documents >= 0, np.isfinite(lists.scores))
    return [[document for document in row if document >= 0] for row in lists.documents.tolist()], guarded.total


def test_the_positive_is_the_lowest_unless_another_is_chosen(sources):
    """Query 0 has the relevant documents 0 (5) and 1 (10): nothing but 5 (4) is below the lowest."""
    assert positive_scores(Known(6), sources, Guard()).tolist() == [5, -2, np.inf]
    assert positive_scores(Known(6), sources, Guard(positive="best"), np.arange(3)).tolist() == [10, -2, np.inf]
    assert positive_scores(Known(6), sources, Guard(positive="best"), np.array([1])).tolist() == [-2]
    assert listed(Guard(relative=0.1), sources)[0][0] == [5]
    assert listed(Guard(relative=0.1, positive="lowest"), sources)[0][0] == [5]
    assert listed(Guard(relative=0.1, positive="best"), sources)[0][0] == [3, 4, 5]
    with pytest.raises(BadInput, match="choose lowest or best"):
        listed(Guard(relative=0.1, positive="own"), sources)
    with pytest.raises(BadInput, match="positive is 'first'"):
        Guard(positive="first")


def test_mined_rows_are_compared_with_their_positive_and_keep_their_ranks(sources):
    queries, positives = np.array([0, 0, 1]), np.array([0, 1, 0])
    lists, _, ranks = negatives_lists(Known(6), sources, Guard(relative=0.1), queries, positives)
    assert [[d for d in row if d >= 0] for row in lists.documents.tolist()] == [[5], [3, 4, 5], [3, 4]]
    # Without the guard: 2, 3, 4, 5 and 5, 1, 2, 3, 4.
    assert [[r for r in row if r] for row in ranks.tolist()] == [[4], [2, 3, 4], [4, 5]]


def test_no_guard_drops_the_relevant_alone(sources):
    assert listed(Guard(), sources) == ([[2, 3, 4, 5], [5, 1, 2, 3, 4], [5, 4, 3, 2, 1, 0]], 0)


@pytest.mark.parametrize(
    ("guard", "first", "second", "guarded"),
    [
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
    lists, count = listed(guard, sources)
    assert lists == [first, second, [5, 4, 3, 2, 1, 0]]  # nothing is known of the query without a relevant document
    assert count == guarded


def test_functions_without_lists_are_left_alone(sources):
    lists, guarded, _ = negatives_lists(RandomFunction(), sources, Guard(positive="best", absolute=1))
    assert lists is None
    assert guarded.total == len(guarded.queries) == 0


def test_lists_are_as_long_as_asked_for(sources):
    """What is left out is made up for from further down, as far as the function ranks anything."""
    lists, none, _ = negatives_lists(Known(2), sources, Guard())
    assert lists.documents.tolist() == [[2, 3], [5, 1], [5, 4]]
    assert none.total == 0
    lists, guarded, _ = negatives_lists(Known(2), sources, Guard(positive="best", absolute=1))
    assert lists.documents.tolist() == [[3, 4], [3, 4], [5, 4]]  # limits 9 and −3: the third and fourth of their lists
    assert lists.scores.tolist() == [[9, 8], [-3, -9], [6, 5]]
    assert guarded.total == 4


def test_lists_are_filled_no_further_than_the_deepest_rank(sources):
    lists, guarded, _ = negatives_lists(Known(2), sources, Guard(positive="best", absolute=1, deepest=3))
    assert lists.documents.tolist() == [[3, -1], [-1, -1], [5, 4]]  # of 1, 2, 3; of 5, 1, 2; of 5, 4, 3
    assert guarded.total == 4


def test_what_was_dropped_and_why(sources):
    _, guarded, _ = negatives_lists(Known(6), sources, Guard(positive="best", absolute=0.5, relative=0.2))
    told = [
        (int(query), int(document), float(score), float(best), REASONS[reason])
        for query, document, score, best, reason in zip(
            guarded.queries, guarded.documents, guarded.scores, guarded.positives, guarded.reasons, strict=True
        )
    ]
    above, relative = "scores above the positive", "within the relative margin"
    assert told == [
        (0, 2, 9.5, 10, relative), (0, 3, 9, 10, relative),
        (1, 5, 4, -2, above), (1, 1, -1, -2, above), (1, 2, -1.5, -2, above),
    ]  # fmt: skip
    assert guarded.total == 5
    _, guarded, _ = negatives_lists(Known(6), sources, Guard(positive="best", absolute=1.5))
    absolute = "within the absolute margin"
    assert [REASONS[reason] for reason in guarded.reasons] == [absolute, absolute, above, above, above, absolute]
    _, guarded, _ = negatives_lists(Known(6), sources, Guard(positive="best", relative=0.1))
    assert [REASONS[reason] for reason in guarded.reasons] == [relative, above, above, above]


def test_of_a_query_no_more_is_written_down_than_its_list_is_long(sources):
    _, guarded, _ = negatives_lists(Known(1), sources, Guard(positive="best", relative=0.55))
    assert (guarded.total, len(guarded.queries)) == (7, 2)
    assert guarded.queries.tolist() == [0, 1]


def test_a_function_that_finds_no_relevant_document_drops_nothing(sources):
    class Lost(Known):
        def own_scores(self, sources: Sources, queries: Any, documents: Any) -> Any:
            return np.full(documents.shape, -np.inf, np.float32)

    lists, guarded, _ = negatives_lists(Lost(6), sources, Guard(positive="best", absolute=100))
    assert lists.counts.tolist() == [4, 5, 6]
    assert guarded.total == 0


def test_a_ceiling_is_on_the_scale_of_the_scores(sources):
    lists, dropped = listed(Guard(positive="best", ceiling=4.0), sources)
    assert lists == [[5], [5, 1, 2, 3, 4], [3, 2, 1, 0]]
    assert dropped == 5
    _, guarded, _ = negatives_lists(Known(6), sources, Guard(positive="best", absolute=0.7, ceiling=8.5))
    of_first = [REASONS[reason] for reason in guarded.reasons[guarded.queries == 0]]
    assert of_first == ["within the absolute margin", "above the ceiling"]


class Opposite:
    """A ranker that likes what `SCORES` does not."""

    def own_scores(self, sources: Sources, queries: Any, documents: Any) -> Any:
        return np.where(documents < 0, -np.inf, -SCORES[queries[:, None], documents]).astype(np.float32)


def test_a_ranker_says_what_is_dropped_and_the_function_in_what_order(sources):
    """To query 0's relevant documents it gives −5 and −10, so that only what has less than −5 may be shown."""
    lists, guarded, _ = negatives_lists(Known(6), sources, Guard(positive="best", absolute=0.0, ranker=Opposite()))
    assert lists.documents[0].tolist() == [2, 3, 4, -1, -1, -1]
    assert lists.scores[0, :3].tolist() == [9.5, 9, 8]
    assert guarded.documents[guarded.queries == 0].tolist() == [5]
    assert (guarded.scores[0], guarded.positives[0]) == (-4, -5)
    # With a margin of 6 it would have dropped document 1 as well, which is relevant: −10 > −5 − 6.
    _, wider, _ = negatives_lists(Known(6), sources, Guard(positive="best", absolute=6.0, ranker=Opposite()))
    assert (guarded.relevant, wider.relevant) == (0, 1)
    with pytest.raises(BadInput, match="a ranker without a margin"):
        Guard(ranker=Opposite())
