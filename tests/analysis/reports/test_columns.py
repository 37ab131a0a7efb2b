import polars as pl
import pytest

from pyrite.analysis.reports import columns
from pyrite.analysis.reports.labels import count, duration, known, p_value, signed, signed_interval, value

FRAME = pl.DataFrame({
    "collection": ["c", "c"], "ranker": ["static", "dssm"], "method": ["a · x", "a · y"], "mean": [0.5, None],
    "difference": [-0.0123, 0.2], "low": [-0.1, None], "high": [0.05, 0.4], "p": [0.0004, float("nan")], "runs": [3, 4],
})  # fmt: skip
DECLARED = [
    columns.named("method", {"a · x": "x", "a · y": "y"}), columns.measure("mean"), columns.diff(),
    columns.interval("95%"), columns.p("p (Holm)", "p"), columns.number("share", ".0%", "high"), columns.text("runs"),
]  # fmt: skip


def texts(table):
    return [line if isinstance(line, str) else [cell.text for cell in line] for line in table.lines]


def test_a_table_is_its_declared_columns_and_what_is_missing_is_a_dash():
    table = columns.table(FRAME, DECLARED, caption="title")
    assert list(table.head) == ["method", "mean", "difference", "95%", "p (Holm)", "share", "runs"]
    assert texts(table) == [
        ["x", ".5000", "-.0123", "-.1000 to +.0500", "<.001", "5%", 3],
        ["y", None, "+.2000", None, None, "40%", 4],
    ]
    assert "–" in str(table.to_html())
    assert table.caption == "title"


def test_rows_of_dictionaries_and_titles_of_families():
    assert texts(columns.table([{"runs": 1}, {"runs": 2}], [columns.text("runs")])) == [[1], [2]]
    assert texts(columns.table_by_family(FRAME, [columns.text("runs")])) == ["static", [3], "dssm", [4]]


@pytest.mark.parametrize(
    ("form", "number", "expected"),
    [
        (value, 0.5, ".5000"), (value, 1.5, "1.5000"), (value, -0.25, "-.2500"), (value, 10.5, "10.5000"),
        (signed, 0.01, "+.0100"), (signed, -1.5, "-1.5000"), (p_value, 0.05, ".050"), (p_value, 0.0001, "<.001"),
        (duration, 9.94, "9.9 s"), (duration, 9.96, "10 s"), (duration, 99.6, "1.7 min"), (duration, 600, "10 min"),
        (duration, 5970, "1.7 h"), (count, 999, "999"), (count, 1500, "1.5k"), (count, 9.96e6, "10M"),
        (count, 2e9, "2.0G"), (count, 0, "0"),
    ],
)  # fmt: skip
def test_forms_of_numbers(form, number, expected):
    assert form(number) == expected
    assert form(None) is form(float("nan")) is None


def test_a_form_needs_all_its_numbers():
    assert signed_interval(-0.1, 0.1) == "-.1000 to +.1000"
    assert signed_interval(None, 0.1) is None
    assert known("{} of {}".format)(1, 2) == "1 of 2"
    assert known("{} of {}".format)(1, None) is None
