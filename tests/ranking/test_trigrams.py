from collections import Counter
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranking import reading
from ranking.texts import Texts
from ranking.trigrams import Collisions, Trigrams, bucket_of, collisions, trigrams_of

LETTERS = st.text("abcé字🙂कि", min_size=1, max_size=5)  # the last two are a letter and its mark


def number(trigram: str) -> int:
    """Three letters as one number, by their code points."""
    return int("".join(f"{ord(letter):021b}" for letter in trigram), 2)


def spelled(words: list[str]) -> list[list[str]]:
    """What `trigrams_of` says, as letters."""
    trigrams, offsets = trigrams_of(pl.Series(words, dtype=pl.String))
    letters = [
        "".join(chr((int(trigram) >> shift) & (2**21 - 1)) for shift in (42, 21, 0)) for trigram in trigrams.tolist()
    ]
    return [letters[start:end] for start, end in pairwise(offsets.tolist())]


def bags(texts: list[str | None], buckets: int = 1_000_000, limit: int = 50) -> list[list[int]]:
    found = Trigrams(buckets, limit, limit).bags(pl.DataFrame({"text": texts}, schema={"text": pl.String}), limit)
    return [found.tokens[start:end].tolist() for start, end in pairwise(found.offsets.tolist())]


def by_hand(trigrams: list[str], buckets: int = 1_000_000) -> list[int]:
    return sorted((bucket_of(np.array([number(t) for t in trigrams], np.uint64), buckets) + 1).tolist())


@given(st.lists(LETTERS, max_size=6))
def test_words_are_taken_apart_each_by_itself(words):
    marked = [f"#{word}#" for word in words]
    assert spelled(words) == [[word[place : place + 3] for place in range(len(word) - 2)] for word in marked]


def splitmix(value: int) -> int:
    """The finaliser of splitmix64, in numbers without an end."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        value = (value ^ (value >> shift)) * factor % 2**64
    return value ^ (value >> 31)


@given(st.lists(st.integers(0, 2**63 - 1), max_size=5), st.integers(1, 10**6))
def test_buckets_are_those_of_the_hash(trigrams, buckets):
    given_ones = np.array(trigrams, np.uint64)
    before = given_ones.copy()
    found = bucket_of(given_ones, buckets)
    assert found.tolist() == [splitmix(trigram) % buckets for trigram in trigrams]
    assert found.dtype == np.int64
    np.testing.assert_array_equal(given_ones, before)


@given(st.lists(st.integers(0, 30), max_size=20), st.integers(1, 12))
def test_collisions_are_counted_as_one_counts_them(trigrams, buckets):
    places = Counter(splitmix(trigram) % buckets for trigram in set(trigrams))
    shared = sum(count for count in places.values() if count > 1)
    assert collisions(np.array(trigrams, np.uint64), buckets) == Collisions(len(set(trigrams)), len(places), shared)


def test_a_bag_holds_each_trigram_as_often_as_it_occurs_in_ascending_order():
    once, twice = bags(["Cat!", "a cat, the CAT"])
    assert once == by_hand(["#ca", "cat", "at#"])
    assert twice == by_hand(["#a#", "#ca", "cat", "at#", "#th", "the", "he#", "#ca", "cat", "at#"])
    assert min(once) > 0


@pytest.mark.parametrize("texts", [["", "?!", None], ["", "cat", None, "...", "cat"], ["cat"], []])
def test_a_text_without_words_has_the_trigram_of_none(texts):
    assert bags(texts) == [by_hand(["#ca", "cat", "at#"]) if text == "cat" else [1] for text in texts]


def test_chunks_change_nothing(tiny, monkeypatch):
    whole = Trigrams(500, 4, 6).encode(tiny)
    monkeypatch.setattr(reading, "CHUNK", 5)
    parts = Trigrams(500, 4, 6).encode(tiny)
    for one, other in ((whole.documents, parts.documents), (whole.queries, parts.queries)):
        np.testing.assert_array_equal(one.tokens, other.tokens)
        np.testing.assert_array_equal(one.offsets, other.offsets)


def test_a_collection_by_its_words(tiny):
    """Every text of it, taken apart in plain Python."""
    tokens = Trigrams(500, 3, 5).encode(tiny)
    for frame, found, limit in ((tiny.documents, tokens.documents, 5), (tiny.queries, tokens.queries, 3)):
        assert isinstance(found, Texts)
        assert (found.tokens.dtype, found.offsets.dtype) == (np.int32, np.int64)
        assert 1 <= found.tokens.min() <= found.tokens.max() <= 500
        for row, text in enumerate(frame["text"]):
            marked = [f"#{word}#" for word in text.lower().split()[:limit]]
            trigrams = [word[place : place + 3] for word in marked for place in range(len(word) - 2)]
            assert found.tokens[found.offsets[row] : found.offsets[row + 1]].tolist() == by_hand(trigrams, 500)
