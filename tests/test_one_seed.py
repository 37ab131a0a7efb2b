"""Comparisons of one seed that are drawn from studies of many."""

import numpy as np
import polars as pl
import pytest

from benchmarks.one_seed import Study, comparisons, drawn, shares, studies, uncertain


def test_a_print_has_one_seed_and_the_truth_all_others():
    """Two seeds a side: the truth is the difference of the other two runs, turned as the print is."""
    first, second = np.array([[0.4, 0.6], [0.1, 0.1]]), np.array([[0.2, 0.2], [0.3, 0.3]])
    shown, true = drawn(first, second, 2, 200, np.random.default_rng(0))
    pairs = {(round(one, 6), round(other, 6)) for one, other in zip(shown, true, strict=True)}
    assert pairs == {(0.3, -0.2), (0.2, -0.1), (0.1, -0.2), (0.2, -0.3)}
    half, _ = drawn(first, second, 1, 200, np.random.default_rng(0))
    assert {round(value, 6) for value in half} == {0.2, 0.4, 0.1, 0.3}


def test_equal_methods_are_a_coin_and_unequal_ones_are_not():
    rng = np.random.default_rng(1)
    values = {name: 0.3 + rng.normal(0, 0.01, (20, 1)) + rng.normal(0, 0.05, (20, 60)) for name in "ab"}
    equal = comparisons(Study("equal", "nowhere", values), 2000, rng)
    far = comparisons(Study("far", "nowhere", values | {"b": values["b"] + 0.2}), 2000, rng)
    assert 0.3 < (equal["true"] <= 0).mean() < 0.7
    assert (far["true"] > 0).all()
    assert uncertain(equal) > 0.01
    assert uncertain(far) == 0


def test_shares_by_hand():
    rows = pl.DataFrame({"shown": [0.1, 0.1, 0.1, 0.1], "true": [-0.1, 0.04, 0.06, 0.2]})
    assert shares(rows) == ("25%", "25%")
    windows = pl.DataFrame({"shown": [number / 100 for number in range(40)], "true": [-1.0] * 10 + [1.0] * 30})
    assert uncertain(windows) == pytest.approx(0.09)


@pytest.mark.nightly
def test_studies_are_those_of_many_seeds():
    found = {study.name: study for study in studies("AP@100", 20)}
    assert {"negatives_cranfield", "ways_medquad"} <= set(found)
    assert "negatives_quest" not in found
    assert found["ways_medquad"].seeds == 20
