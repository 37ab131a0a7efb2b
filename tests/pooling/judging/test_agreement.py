from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pooling.judging.agreement import cohen_kappa, krippendorff_alpha


def kappa(first: Sequence[int], second: Sequence[int]) -> float | None:
    return cohen_kappa(Counter(zip(first, second, strict=True)))


def test_kappa_by_hand():
    # 20 yes/yes, 5 yes/no, 10 no/yes, 15 no/no: observed .7, by chance .5 · .6 + .5 · .4 = .5.
    assert cohen_kappa({(1, 1): 20, (1, 0): 5, (0, 1): 10, (0, 0): 15}) == pytest.approx(0.4)
    # Three grades: observed 5/6, by chance (3·2 + 2·3 + 1·1) / 36 = 13/36.
    assert kappa([0, 0, 0, 1, 1, 2], [0, 0, 1, 1, 1, 2]) == pytest.approx((5 / 6 - 13 / 36) / (23 / 36))
    assert kappa([0, 1], [1, 0]) == -1
    assert kappa([0, 1, 3], [0, 1, 3]) == 1


@pytest.mark.filterwarnings("error")
def test_kappa_that_is_not_defined():
    assert cohen_kappa({}) is None
    assert kappa([1, 1], [1, 1]) is None
    assert kappa([1, 1], [1, 0]) == 0


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40))
def test_kappa_is_symmetric_and_does_not_depend_on_names(pairs):
    first, second = zip(*pairs, strict=True)
    value = kappa(first, second)
    assert value is None or value <= 1
    renamed = kappa([9 - 2 * grade for grade in second], [9 - 2 * grade for grade in first])
    assert renamed == (None if value is None else pytest.approx(value))


def alpha(rows: Sequence[str]) -> float | None:
    """Of the grades that assessors gave, a row each, a document a column; a dot where one did not judge it."""
    coincidences: defaultdict[int, Counter[tuple[int, int]]] = defaultdict(Counter)
    for column in zip(*rows, strict=True):
        grades = [int(grade) for grade in column if grade != "."]
        if len(grades) > 1:
            coincidences[len(grades)].update(permutations(grades, 2))
    return krippendorff_alpha(coincidences)


def test_alpha_of_the_example_of_its_author():
    # Krippendorff 2011, data of four observers with gaps: ordinal .815.
    rows = ["123321412...", "1233224125.3", ".3332342251.", "1233244125" + "1."]
    assert alpha(rows) == pytest.approx(0.815, abs=0.0005)


def test_alpha_at_its_ends():
    assert alpha(["0120", "0120", "0120"]) == 1
    assert alpha(["11", "11"]) is None
    assert alpha(["01", ".."]) is None
    worse = alpha(["0202", "2020"])
    assert worse < 0
    # Ordinal: a grade next to another is no disagreement like one far off.
    near, far = alpha(["001122", "011122"]), alpha(["001122", "021122"])
    assert near > far
