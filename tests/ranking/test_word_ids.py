"""Tests that words are numbered as they are read."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranking.reading import Reading
from ranking.word_ids import WordIds

TEXT = st.text(st.sampled_from("abÀİßéＡ١कि食べ物ไทย\u0301\0 -_\n\x7fZ9") | st.characters(codec="utf-8"), max_size=30)


@given(st.lists(st.lists(TEXT, max_size=6), min_size=1, max_size=3), st.sampled_from(["words", "characters"]))
def test_words_are_those_of_the_reading(chunks, tokenizer):
    reading, ids, words = Reading(tokenizer), WordIds(Reading(tokenizer)), []
    for chunk in chunks:
        texts = pl.Series("text", chunk, pl.String)
        numbers, lengths, new = ids.read(texts)
        words += new
        expected = reading.words(texts).to_list()
        assert lengths.tolist() == list(map(len, expected))
        assert [words[number] for number in numbers] == [word for read in expected for word in read]
    assert len(words) == len(set(words))


def test_many_words_are_told_apart_and_found_again():
    ids = WordIds(Reading())
    every = [f"w{number}" for number in range(9_000)]
    numbers, lengths, new = ids.read(pl.Series("text", [" ".join(every), "", " ".join(every).upper()]))
    assert lengths.tolist() == [9_000, 0, 9_000]
    assert new == every
    assert numbers.tolist() == [*range(9_000), *range(9_000)]
    assert ids.read(pl.Series("text", ["w8999 w0 new"]))[0].tolist() == [8_999, 0, 9_000]


@pytest.mark.parametrize("texts", [[], [""], ["", " ,"]])
def test_texts_without_words(texts):
    numbers, lengths, new = WordIds(Reading()).read(pl.Series("text", texts, pl.String))
    assert (len(numbers), new) == (0, [])
    assert lengths.tolist() == [0] * len(texts)
