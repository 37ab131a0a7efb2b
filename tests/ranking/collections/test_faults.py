"""Rows that are wrong are left out and counted, or named."""

import polars as pl
import pytest

from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.errors import BadInput

ROWS = pl.DataFrame({"id": ["a", "", "b", ""], "file": ["one"] * 4, "line": [3, 5, 6, 9]})
PRESENT = pl.col("id") != ""


def test_rows_that_meet_a_condition_are_not_copied():
    faults = Faults()
    good = ROWS.filter(PRESENT)
    assert faults.only(good, PRESENT, "broken line", "no id") is good
    assert faults.skipped == {}


def test_the_first_of_the_others_is_named():
    with pytest.raises(BadInput, match=r"one:5: broken line: no id in line 5, the 5th"):
        Faults().only(ROWS, PRESENT, "broken line", "no id in line {line}", more=lambda row: f", the {row['line']}th")
    with pytest.raises(BadInput, match=r"^two: broken line: no id; copy it"):
        Faults().only(ROWS.drop("file", "line"), PRESENT, "broken line", "no id", "two", remedy="copy it")


def test_if_not_strict_they_are_counted():
    faults = Faults(strict=False)

    def never(row):
        raise AssertionError(row)

    assert faults.only(ROWS, PRESENT, "broken line", "no id", more=never)["id"].to_list() == ["a", "b"]
    assert faults.skipped == {"broken line": 2}


def test_a_condition_of_which_nothing_is_known_is_not_met():
    faults, rows = Faults(strict=False), ROWS.with_columns(id=pl.Series(["a", None, "b", None]))
    assert faults.only(rows, PRESENT, "broken line", "no id")["id"].to_list() == ["a", "b"]
    assert faults.skipped == {"broken line": 2}
    with pytest.raises(BadInput, match="one:5: broken line"):
        Faults().only(rows, PRESENT, "broken line", "no id")
