from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranking.collections.collection import Collection
from ranking.encoding import EncodedCollection, Judgements
from ranking.errors import BadInput
from ranking.splits import Split, split_queries
from ranking.texts import Texts

ALL = {"train": None, "dev": None, "test": None}
PARTS = ("train", "dev", "test")


def some(count: int, without: tuple[int, ...] = ()) -> tuple[Collection, EncodedCollection]:
    """Queries without a split; those of `without` have a judgement that is not relevant."""
    queries = pl.DataFrame({"id": [f"query {i}" for i in range(count)]})
    grades = np.array([0 if query in without else 1 for query in range(count)], np.int32)
    judgements = Judgements(np.arange(count + 1), np.zeros(count, np.int32), grades)
    texts = Texts.of([[1]] * count)
    encoded = EncodedCollection(
        texts, texts, np.ones(2, np.float32), judgements, np.full(count, -1, np.int8), np.zeros(count, np.int32)
    )
    return Collection("some", "", pl.DataFrame(), queries, pl.DataFrame()), encoded


def assert_disjoint(split: Split) -> None:
    together = np.concatenate([getattr(split, part) for part in PARTS])
    assert len(np.unique(together)) == len(together)
    for part in PARTS:
        queries = getattr(split, part)
        assert queries.dtype == np.int64
        assert (np.diff(queries) > 0).all()


@given(st.integers(3, 40), st.integers(3, 6), st.sets(st.integers(0, 39)))
def test_folds_test_each_query_once(count, folds, without):
    usable = sorted(set(range(count)) - without)
    if len(usable) < folds:
        with pytest.raises(BadInput, match="folds"):
            split_queries(*some(count, tuple(without)), folds, ALL)
        return
    splits = split_queries(*some(count, tuple(without)), folds, ALL)
    assert len(splits) == folds
    assert sorted(np.concatenate([split.test for split in splits]).tolist()) == usable
    assert sorted(np.concatenate([split.dev for split in splits]).tolist()) == usable
    for split, following in zip(splits, [*splits[1:], splits[0]], strict=True):
        assert_disjoint(split)
        assert split.dev.tolist() == following.test.tolist()
        assert sum(len(getattr(split, part)) for part in PARTS) == len(usable)
        assert len(split.test) in (len(usable) // folds, -(-len(usable) // folds))


@pytest.mark.parametrize("folds", [5, None])
def test_limits_nest(folds, tiny, tiny_encoded):
    pair = some(50) if folds else (tiny, tiny_encoded)
    previous = split_queries(*pair, folds or 5, {"train": 0, "dev": 0, "test": 0})
    for limit in (1, 2, 3, 7, None):
        now = split_queries(*pair, folds or 5, {"train": limit, "dev": limit, "test": limit})
        for before, split in zip(previous, now, strict=True):
            assert_disjoint(split)
            for part in PARTS:
                assert set(getattr(before, part)) <= set(getattr(split, part))
                assert limit is None or len(getattr(split, part)) <= limit
        previous = now


def test_limits_are_taken_part_by_part():
    (split, *_) = split_queries(*some(50), 5, {"train": 3, "dev": None, "test": 1})
    assert [len(getattr(split, part)) for part in PARTS] == [3, 10, 1]


def test_the_collections_own_split(tiny, tiny_encoded):
    (split,) = split_queries(tiny, tiny_encoded, 5, ALL)
    assert [getattr(split, part).tolist() for part in PARTS] == [[0, 1, 2, 3], [4, 5], [6, 7]]


def test_a_query_without_a_relevant_document_is_in_no_split(tiny, encoded_of):
    encoded = encoded_of([[1]], [[1]] * 8, {query: {0: int(query != 2)} for query in range(7)})
    (split,) = split_queries(tiny, replace(encoded, split=np.array([0, 0, 0, 0, 1, 1, 2, 2], np.int8)), 5, ALL)
    assert [getattr(split, part).tolist() for part in PARTS] == [[0, 1, 3], [4, 5], [6]]
