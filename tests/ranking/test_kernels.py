"""Tests compiled loops, and the sorts within them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba.core.dispatcher import Dispatcher

from pyrite.ranking import kernels, sorting_kernels
from pyrite.ranking.kernels import kernel, loop

KEYS = st.lists(st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 3)), max_size=70)


@given(KEYS)
def test_keys_are_sorted_and_what_follows_them_stays(keys):
    array = np.array([*keys, 7, 1], np.uint64)
    sorting_kernels.sort(array, len(keys), np.empty(len(keys), np.uint64))
    assert array.tolist() == [*sorted(keys), 7, 1]


@given(KEYS.filter(bool), st.data())
def test_a_rank_is_selected(keys, data):
    rank = data.draw(st.integers(0, len(keys) - 1))
    array = np.array([*keys, 0], np.uint64)
    assert sorting_kernels.select(array, len(keys), rank) == sorted(keys)[rank] == array[rank]
    assert sorted(array[:rank].tolist()) == sorted(keys)[:rank]
    assert sorted(array[rank : len(keys)].tolist()) == sorted(keys)[rank:]


@pytest.mark.parametrize("keys", [np.arange(5000), np.arange(5000)[::-1], np.zeros(5000), np.arange(5000) % 3])
def test_long_arrays_in_order_or_alike(keys):
    expected, array = np.sort(keys.astype(np.uint64)), keys.astype(np.uint64)
    assert sorting_kernels.select(array, 5000, 4900) == expected[4900]
    sorting_kernels.sort(array, 5000, np.empty(5000, np.uint64))
    assert (array == expected).all()


@kernel
def _twice(number):
    return 2 * number


@kernel
def _four_times(number):
    return _twice(_twice(number))


@loop
def _fill(numbers):
    for index in range(len(numbers)):
        numbers[index] = _four_times(index)


def test_a_loop_calls_kernels_that_python_may_call_too():
    numbers = np.zeros(3, np.int64)
    _fill(numbers)
    assert numbers.tolist() == [0, 4, 8]
    inner = _fill.py_func.__globals__["_four_times"]
    assert isinstance(inner, Dispatcher)
    assert inner is not _four_times
    assert inner.targetoptions["no_cpython_wrapper"]
    assert inner.py_func.__globals__["_twice"].targetoptions["no_cpython_wrapper"]
    assert not _four_times.overloads  # nothing is compiled for Python until it calls
    assert _four_times(3) == 12


def test_the_name_that_numba_caches_by_follows_the_files_of_what_is_called(tmp_path, monkeypatch):
    name = _fill.py_func.__qualname__
    assert kernels._files(_fill.py_func) == {__file__}
    other = tmp_path / "other.py"
    other.write_text("one")
    first = kernels._digest(frozenset([__file__, str(other)]))
    other.write_text("two")
    kernels._digest.cache_clear()
    assert kernels._digest(frozenset([__file__, str(other)])) != first
    assert name.endswith(kernels._digest(frozenset([__file__])))
