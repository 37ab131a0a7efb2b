from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranking.texts import Texts

LISTS = st.lists(st.lists(st.integers(1, 9), max_size=4), max_size=6)


def lists(texts: Texts) -> list[list[int]]:
    return [texts.tokens[start:end].tolist() for start, end in zip(texts.offsets, texts.offsets[1:], strict=False)]


@given(LISTS, st.data())
def test_take_takes_rows_in_their_order_with_repeats(texts, data):
    rows = data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=8)) if texts else []
    taken = Texts.of(texts).take(np.array(rows, np.int32))
    assert lists(taken) == [texts[row] for row in rows]
    assert (taken.tokens.dtype, taken.offsets.dtype) == (np.int32, np.int64)
    assert taken.lengths.tolist() == [len(texts[row]) for row in rows]


@given(LISTS, LISTS)
def test_followed_by_puts_the_others_behind(texts, others):
    both = Texts.of(texts).followed_by(Texts.of(others))
    assert lists(both) == texts + others
    assert len(both) == len(texts) + len(others)
    assert (both.tokens.dtype, both.offsets.dtype) == (np.int32, np.int64)


@given(LISTS, st.integers(0, 6))
def test_padded_cuts_and_fills_up(texts, length):
    padded = Texts.of(texts).padded(length)
    assert padded.shape == (len(texts), length)
    assert padded.dtype == np.int32
    assert padded.tolist() == [(text + [0] * length)[:length] for text in texts]


@pytest.mark.parametrize("texts", [[], [[]], [[], [3], []]])
def test_empty_texts(texts):
    assert lists(Texts.of(texts)) == texts


def test_labels_go_with_their_texts():
    labels = np.array([[0, -1], [1, 2], [-1, -1]], np.int32)
    texts = replace(Texts.of([[1], [2, 3], []]), labels=labels)
    taken = texts.take(np.array([2, 0, 0]))
    assert taken.labels.tolist() == [[-1, -1], [0, -1], [0, -1]]
    both = taken.followed_by(texts)
    assert both.labels.tolist() == [*taken.labels.tolist(), *labels.tolist()]
    assert lists(both) == [[], [1], [1], [1], [2, 3], []]


def test_texts_without_labels_leave_both_without():
    bare = Texts.of([[1], [2]])
    labelled = replace(bare, labels=np.zeros((2, 2), np.int32))
    assert bare.take(np.array([1])).labels is None
    assert bare.followed_by(labelled).labels is None
    assert labelled.followed_by(bare).labels is None
