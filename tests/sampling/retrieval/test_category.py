from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from ranking.encoding import EncodedCollection
from ranking.errors import BadInput
from sampling.retrieval.category import CategoryFunction, OtherCategory, SameSubcategory
from sampling.retrieval.category import SameCategory as WholeCategory
from tests.examples import few
from tests.sampling.batches import batch_of, prepared

EncodedOf = Callable[..., EncodedCollection]
Labels = Sequence[tuple[int, int]]


class SameCategory(WholeCategory):
    """The category without the subcategory."""

    def __init__(self) -> None:
        super().__init__(whole=False)


KINDS: list[type[CategoryFunction]] = [SameSubcategory, SameCategory, OtherCategory]

DOCUMENTS = [  # category, subcategory; their order is not that of the categories
    (0, 0),
    (2, 0),  # a subcategory that occurs in two categories
    (0, 0),
    (-1, -1),
    (0, 1),
    (1, 2),  # alone in its category
    (0, -1),
    (2, 0),
    (0, 0),
    (-1, 1),
]
# category and subcategory, relevant documents; then what is left of the three regions
QUERIES = {
    "both": ((0, 0), {2}, {0, 8}, {4, 6}, {1, 3, 5, 7, 9}),
    "category alone": ((0, -1), {4, 3}, set(), {0, 2, 6, 8}, {1, 5, 7, 9}),
    "neither": ((-1, -1), {3}, set(), set(), {0, 1, 2, 4, 5, 6, 7, 8, 9}),
    "subcategory alone": ((-1, 0), set(), set(), set(), set(range(10))),
    "a category of queries": ((3, 0), {0}, set(), set(), {1, 2, 3, 4, 5, 6, 7, 8, 9}),
    "a category of one document": ((1, 2), set(), {5}, set(), {0, 1, 2, 3, 4, 6, 7, 8, 9}),
    "that one document": ((1, 2), {5}, set(), set(), {0, 1, 2, 3, 4, 6, 7, 8, 9}),
    "another category's subcategory": ((0, 2), {5}, set(), {0, 2, 4, 6, 8}, {1, 3, 7, 9}),
    "a subcategory of queries": ((2, 6), {1, 9}, set(), {7}, {0, 2, 3, 4, 5, 6, 8}),
    "the last category": ((2, 0), {7, 0, 3}, {1}, set(), {2, 4, 5, 6, 8, 9}),
    "everything relevant": ((0, 0), set(range(10)), set(), set(), set()),
}
ROWS = {name: row for row, name in enumerate(QUERIES)}


def collection(
    encoded_of: EncodedOf, documents: Labels, queries: Labels, relevant: Sequence[set[int]]
) -> EncodedCollection:
    grades = {query: dict.fromkeys(of_query, 1) for query, of_query in enumerate(relevant)}
    encoded = encoded_of([[1]] * len(documents), [[1]] * len(queries), grades)
    return replace(
        encoded,
        documents=replace(encoded.documents, labels=np.array(documents, np.int32).reshape(-1, 2)),
        queries=replace(encoded.queries, labels=np.array(queries, np.int32).reshape(-1, 2)),
    )


@pytest.fixture
def made(encoded_of) -> EncodedCollection:
    rows = list(QUERIES.values())
    return collection(encoded_of, DOCUMENTS, [row[0] for row in rows], [row[1] for row in rows])


def regions_of(name: str, kind: type[CategoryFunction]) -> list[set[int]]:
    """A query's regions in the order in which the function takes them."""
    subcategory, category, outside = QUERIES[name][2:]
    if kind is SameSubcategory:
        return [subcategory, category, outside]
    if kind is SameCategory:
        return [category, subcategory, outside]
    return [outside, category, subcategory]


@pytest.mark.parametrize("kind", KINDS)
def test_a_region_is_given_whole_before_the_next(kind, made):
    """Asked for all, the function gives region after region; for fewer, as much of the first ones as there is room."""
    function = prepared(kind(), made)
    for name, row in ROWS.items():
        regions = regions_of(name, kind)
        sizes = list(map(len, regions))
        for seed in range(5):
            whole = function.sample(batch_of(row), 13, np.random.default_rng(seed))
            assert (whole.documents.dtype, whole.scores.dtype) == (np.int32, np.float32)
            assert whole.documents.shape == whole.scores.shape == (1, 13)
            assert np.isnan(whole.scores).all()
            given = whole.documents[0].tolist()
            ends = np.cumsum([0, *sizes]).tolist()
            parts = [given[start:end] for start, end in pairwise(ends)]
            assert [sorted(part) for part in parts] == [sorted(region) for region in regions], name
            assert given[ends[-1] :] == [-1] * (13 - ends[-1])
            tiers = np.repeat(range(3), sizes).tolist()
            assert whole.tier[0, : len(tiers)].tolist() == tiers
            for count in (1, 2, 5):
                few = function.sample(batch_of(row), count, np.random.default_rng(seed))
                there = few.documents[0][few.documents[0] >= 0].tolist()
                assert few.tier[0, : len(there)].tolist() == tiers[:count]
                assert len(set(there)) == len(there)
                assert all(document in regions[tier] for document, tier in zip(there, tiers, strict=False)), name


def test_the_fallback_of_a_batch_by_hand(made):
    rows = np.array([ROWS["both"], ROWS["category alone"], ROWS["the last category"], ROWS["both"]])
    function, rng = prepared(SameSubcategory(), made), np.random.default_rng(0)
    candidates = function.sample(batch_of(rows), 3, rng)
    # Of three each: 2 in the subcategory and 1 beside; 3 of the category; 1 and then 2 from anywhere; as the first.
    assert candidates.tier.tolist() == [[0, 0, 1], [1, 1, 1], [0, 2, 2], [0, 0, 1]]
    for row in (0, 3):
        assert set(candidates.documents[row, :2].tolist()) == {0, 8}
        assert candidates.documents[row, 2] in {4, 6}
    assert set(candidates.documents[1].tolist()) <= {0, 2, 6, 8}
    assert candidates.documents[2, 0] == 1
    assert function.top(batch_of(rows[:1]), 2, rng).tier.tolist() == [[0, 0]]
    assert function.sample(batch_of(rows[:0]), 3, rng).documents.shape == (0, 3)
    assert function.sample(batch_of(rows), 0, rng).documents.shape == (4, 0)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (SameSubcategory, "both"),
        (SameCategory, "both"),  # around a hole
        (SameCategory, "category alone"),
        (OtherCategory, "both"),
        (OtherCategory, "a category of one document"),
        (OtherCategory, "a subcategory of queries"),
        (OtherCategory, "neither"),
    ],
)
def test_uniform_within_a_region(kind, name, made):
    """All pairs of documents are as probable."""
    region = regions_of(name, kind)[0]
    count = 2 if len(region) > 2 else 1
    candidates = prepared(kind(), made).sample(batch_of(np.full(20_000, ROWS[name])), count, np.random.default_rng(3))
    sets, frequencies = np.unique(np.sort(candidates.documents, axis=1), axis=0, return_counts=True)
    assert [tuple(row) for row in sets.tolist()] == sorted(combinations(sorted(region), count))
    assert chisquare(frequencies).pvalue > 0.01


def test_uniform_in_what_it_falls_back_to(made):
    candidates = prepared(SameSubcategory(), made).sample(
        batch_of(np.full(20_000, ROWS["both"])), 6, np.random.default_rng(4)
    )
    assert set(candidates.documents[:, 2:4].ravel().tolist()) == {4, 6}
    sets, frequencies = np.unique(np.sort(candidates.documents[:, 4:], axis=1), axis=0, return_counts=True)
    assert [tuple(row) for row in sets.tolist()] == list(combinations([1, 3, 5, 7, 9], 2))
    assert chisquare(frequencies).pvalue > 0.01


def test_a_collection_without_categories_is_bad_input(encoded_of):
    bare = encoded_of([[1]] * 3, [[1]], {0: {0: 1}})
    none = collection(encoded_of, [(-1, -1), (-1, 0)], [(0, 0)], [{0}])  # only queries have one
    for kind in KINDS:
        for encoded in (bare, none):
            with pytest.raises(BadInput, match="the collection has no categories"):
                prepared(kind(), encoded)


LABEL = st.tuples(st.integers(-1, 2), st.integers(-1, 2))


@few(20)
@given(
    st.lists(LABEL, min_size=1, max_size=9).filter(lambda labels: max(labels)[0] >= 0),
    st.lists(st.tuples(LABEL, st.sets(st.integers(0, 8))), min_size=1, max_size=4),
    st.integers(1, 10),
    st.integers(0, 99),
)
def test_every_region_is_what_its_words_say(encoded_of, documents, queries, count, seed):
    every = set(range(len(documents)))
    encoded = collection(encoded_of, documents, [labels for labels, _ in queries], [own & every for _, own in queries])
    for kind in KINDS:
        offers = (
            prepared(kind(), encoded)
            .sample(batch_of(np.arange(len(queries))), count, np.random.default_rng(seed))
            .documents
        )
        for ((category, subcategory), relevant), row in zip(queries, offers.tolist(), strict=True):
            left = every - relevant
            whole = {d for d in left if category >= 0 and documents[d][0] == category}
            inner = {d for d in whole if subcategory >= 0 and documents[d][1] == subcategory}
            regions = {
                SameSubcategory: [inner, whole - inner, left - whole],
                SameCategory: [whole - inner, inner, left - whole],
                OtherCategory: [left - whole, whole - inner, inner],
            }[kind]
            for region in regions:
                part, row = row[: len(region)], row[len(region) :]
                assert set(part) <= region
                assert len(set(part)) == len(part)
            assert set(row) <= {-1}
