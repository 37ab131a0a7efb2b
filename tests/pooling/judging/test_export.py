import csv
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pooling.judging.export import RULES, disagreements, qrels, write_qrels, write_table
from pooling.judging.store import Event, Snapshot, Store, read
from ranking.errors import BadInput

KNOWN = pl.DataFrame(
    [("10", "d1", 2), ("2", "d9", 0), ("2", "d2", 1)], schema=["topic", "document", "grade"], orient="row"
)


def judged(folder: Path, *judgements: tuple[str, str, str, int]) -> Snapshot:
    store = Store(folder, {"pool": "a"}, KNOWN)
    store.append(*(Event("judge", assessor, topic, name, grade) for assessor, topic, name, grade in judgements))
    store.close()
    return read(folder)


def test_qrels_hold_what_was_judged_before_and_now(tmp_path):
    snapshot = judged(
        tmp_path, ("ada", "2", "d2", 0), ("ada", "2", "d10", 1), ("grace", "2", "d10", 0), ("ada", "a", "d1", 3),
        ("grace", "a", "d1", 3),
    )  # fmt: skip
    for rule, grade in (("highest", 1), ("first", 1), ("last", 0)):
        assert qrels(snapshot, rule).splitlines() == [
            f"2 0 d10 {grade}", "2 0 d2 0", "2 0 d9 0", "10 0 d1 2", "a 0 d1 3",
        ]  # fmt: skip
    path = tmp_path / "new" / "qrels.txt"
    beside = write_qrels(snapshot, "last", path)
    assert path.read_text() == qrels(snapshot, "last")
    assert beside == path.with_name("qrels.txt.disagreements.tsv")
    assert beside.read_text() == disagreements(snapshot, "last")
    assert beside.read_text().splitlines()[1:] == ["2\td10\t0\tada\t1\tgrace\t0"]
    assert sorted(file.name for file in path.parent.iterdir()) == ["qrels.txt", "qrels.txt.disagreements.tsv"]


def test_the_table_says_who_and_when(tmp_path):
    store = Store(tmp_path, {"pool": "a"}, clock=iter([1_700_000_000.25, 1_700_000_001.0]).__next__)
    store.append(
        Event("judge", "ada", "2", "d2", 1, note='a "note",\nof two lines'), Event("judge", "grace", "2", "d1", None)
    )
    store.close()
    path = tmp_path / "made" / "judgements.csv"
    write_table(read(tmp_path), path)
    with path.open(newline="") as file:
        assert list(csv.reader(file)) == [
            ["topic", "document", "grade", "assessor", "time", "note"],
            ["2", "d2", "1", "ada", "2023-11-14T22:13:20.250Z", 'a "note",\nof two lines'],
            ["2", "d1", "", "grace", "2023-11-14T22:13:21.000Z", ""],
        ]
    assert qrels(read(tmp_path), "highest") == "2 0 d2 1\n"


def test_without_second_judgements_there_is_no_second_file(tmp_path):
    assert write_qrels(judged(tmp_path, ("ada", "2", "d2", 0)), "highest", tmp_path / "qrels") is None
    with pytest.raises(BadInput, match="can't be written"):
        write_qrels(read(tmp_path), "highest", tmp_path / "qrels" / "below")


@given(st.lists(st.integers(-2, 4), min_size=1, max_size=2))
def test_every_rule_takes_a_grade_that_was_given(grades):
    assert {rule: take(grades) for rule, take in RULES.items()} == {
        "highest": max(grades), "first": grades[0], "last": grades[-1],
    }  # fmt: skip
