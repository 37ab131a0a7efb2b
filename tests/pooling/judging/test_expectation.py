from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import betabinom

from pooling.judging.expectation import Expectation, expected_yield


def test_expected_yield_by_hand() -> None:
    # Nothing seen: Beta(½, ½) is even about a half, and five of ten are expected.
    assert expected_yield([], 100) == Expectation(10, pytest.approx(5), 0, 10, 0)
    # 5 of the last 20: 5.5 / 21 of ten.
    recent = expected_yield([True] * 5 + [False] * 15, 40)
    assert recent is not None
    assert recent.mean == pytest.approx(10 * 5.5 / 21)
    assert (recent.documents, recent.recent) == (10, 20)
    assert expected_yield([True], 3) == Expectation(3, pytest.approx(3 * 1.5 / 2), 0, 3, 1)
    assert expected_yield([True], 0) is None


@given(st.lists(st.booleans(), max_size=20), st.integers(1, 15))
def test_the_interval_holds_nine_tenths(recent: list[bool], left: int) -> None:
    found = expected_yield(recent, left)
    assert found is not None
    number = betabinom(min(left, 10), 0.5 + sum(recent), 0.5 + len(recent) - sum(recent))
    assert number.cdf(found.high) - number.cdf(found.low - 1) >= 0.9 - 1e-9
    assert number.cdf(found.low - 1) < 0.05
    assert found.mean == pytest.approx(min(left, 10) * (0.5 + sum(recent)) / (1 + len(recent)))
