from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pooling.judging.agreement import cohen_kappa


def kappa(first: Sequence[int], second: Sequence[int]) -> float | None:
    return cohen_kappa(Counter(zip(first, second, strict=True)))


def test_kappa_by_hand() -> None:
    # 20 yes/yes, 5 yes/no, 10 no/yes, 15 no/no: observed .7, by chance .5 · .6 + .5 · .4 = .5.
    assert cohen_kappa({(1, 1): 20, (1, 0): 5, (0, 1): 10, (0, 0): 15}) == pytest.approx(0.4)
    # Three grades: observed 5/6, by chance (3·2 + 2·3 + 1·1) / 36 = 13/36.
    assert kappa([0, 0, 0, 1, 1, 2], [0, 0, 1, 1, 1, 2]) == pytest.approx((5 / 6 - 13 / 36) / (23 / 36))
    assert kappa([0, 1], [1, 0]) == -1
    assert kappa([0, 1, 3], [0, 1, 3]) == 1


@pytest.mark.filterwarnings("error")
def test_kappa_that_is_not_defined() -> None:
    assert cohen_kappa({}) is None
    assert kappa([1, 1], [1, 1]) is None
    assert kappa([1, 1], [1, 0]) == 0


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40))
def test_kappa_is_symmetric_and_does_not_depend_on_names(pairs: list[tuple[int, int]]) -> None:
    first, second = zip(*pairs, strict=True)
    value = kappa(first, second)
    assert value is None or value <= 1
    renamed = kappa([9 - 2 * grade for grade in second], [9 - 2 * grade for grade in first])
    assert renamed == (None if value is None else pytest.approx(value))
