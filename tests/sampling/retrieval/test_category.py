from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import example, given
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
QUERIES = {  # category and subcategory, relevant documents
    "both": ((0, 0), {2}),
    "category alone": ((0, -1), {4, 3}),
    "neither": ((-1, -1), {3}),
    "subcategory alone": ((-1, 0), set()),
    "a category of queries": ((3, 0), {0}),
    "a category of one document": ((1, 2), set()),
    "that one document": ((1, 2), {5}),
    "another category's subcategory": ((0, 2), {5}),
    "a subcategory of queries": ((2, 6), {1, 9}),
    "the last category": ((2, 0), {7, 0, 3}),
    "everything relevant": ((0, 0), set(range(10))),
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


def regions_of(
    kind: type[CategoryFunction], documents: Labels, labels: tuple[int, int], relevant: set[int]
) -> list[set[int]]:
    """A query's regions in the order in which the function takes them."""
    category, subcategory = labels
    left = set(range(len(documents))) - relevant
    whole = {document for document in left if category >= 0 and documents[document][0] == category}
    inner = {document for document in whole if subcategory >= 0 and documents[document][1] == subcategory}
    return {
        SameSubcategory: [inner, whole - inner, left - whole],
        SameCategory: [whole - inner, inner, left - whole],
        OtherCategory: [left - whole, whole - inner, inner],
    }[kind]


LABEL = st.tuples(st.integers(-1, 2), st.integers(-1, 2))


@few(20)
@given(
    st.lists(LABEL, min_size=1, max_size=9).filter(lambda labels: max(labels)[0] >= 0),
    st.lists(st.tuples(LABEL, st.sets(st.integers(0, 8))), min_size=1, max_size=4),
    st.integers(1, 10),
    st.integers(0, 99),
)
@example(DOCUMENTS, list(QUERIES.values()), 13, 0)
@example(DOCUMENTS, list(QUERIES.values()), 5, 1)
@example(DOCUMENTS, list(QUERIES.values()), 2, 2)
def test_a_region_is_given_whole_before_the_next(encoded_of, documents, queries, count, seed):
    """Asked for all, the function gives region after region; for fewer, as much of the first ones as there is room."""
    relevant = [own & set(range(len(documents))) for _, own in queries]
    encoded = collection(encoded_of, documents, [labels for labels, _ in queries], relevant)
    every, rng = np.arange(len(queries)), np.random.default_rng(seed)
    for kind in KINDS:
        function = prepared(kind(), encoded)
        offered = function.sample(batch_of(every), count, rng)
        assert (offered.documents.dtype, offered.scores.dtype) == (np.int32, np.float32)
        assert offered.documents.shape == offered.scores.shape == (len(queries), count)
        assert np.isnan(offered.scores).all()
        for (labels, _), own, row, tiers in zip(
            queries, relevant, offered.documents.tolist(), offered.tier.tolist(), strict=True
        ):
            for tier, region in enumerate(regions_of(kind, documents, labels, own)):
                part, row = row[: len(region)], row[len(region) :]
                assert set(part) <= region
                assert len(set(part)) == len(part)
                assert tiers[: len(part)] == [tier] * len(part)
                tiers = tiers[len(part) :]
            assert set(row) <= {-1}
        assert offered.tier.tolist() == [function.top(batch_of(query), count, rng).tier[0].tolist() for query in every]
        assert function.sample(batch_of(every[:0]), 3, rng).documents.shape == (0, 3)
        assert function.sample(batch_of(every), 0, rng).documents.shape == (len(queries), 0)


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
    region = regions_of(kind, DOCUMENTS, *QUERIES[name])[0]
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
