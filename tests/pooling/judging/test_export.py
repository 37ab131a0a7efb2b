"""What is read off judgements: files of them, how assessors agree, and how much is left to find."""

import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import betabinom

from pyrite.pooling.judging.agreement import cohen_kappa, krippendorff_alpha
from pyrite.pooling.judging.export import disagreements, qrels, table, write_qrels
from pyrite.pooling.judging.export_files import write
from pyrite.pooling.judging.progress import CURVE_POINTS, TopicProgress
from pyrite.pooling.judging.store import Event, Snapshot, Store, read
from pyrite.pooling.stopping import TargetRecall
from pyrite.ranking.errors import BadInput
from pyrite.ranking.trec_files import read_qrels

KNOWN = pl.DataFrame([("10", "d1", 2), ("2", "d9", 0), ("2", "d2", 1)], ["topic", "document", "grade"], orient="row")


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


def test_disagreements_are_a_table_for_any_number_of_judges(tmp_path):
    snapshot = judged(
        tmp_path, ("ada", "1", "d1", 0), ("grace", "1", "d1", 1), ("ada", "1", "d2", 1), ("ada", "1", "d3", 0),
        ("grace", "1", "d3", 1), ("edsger", "1", "d3", 0),
    )  # fmt: skip
    made = pl.read_csv(disagreements(snapshot, "last").encode(), separator="\t")
    names = [f"{name} {column}" for name in ("first", "second", "third") for column in ("assessor", "grade")]
    assert made.columns == ["topic", "document", "grade", *names]
    assert made.rows() == [
        (1, "d1", 1, "ada", 0, "grace", 1, None, None), (1, "d3", 0, "ada", 0, "grace", 1, "edsger", 0),
    ]  # fmt: skip


def test_the_table_says_who_and_when(tmp_path):
    store = Store(tmp_path, {"pool": "a"}, clock=iter([1_700_000_000.25, 1_700_000_001.0]).__next__)
    store.append(
        Event("judge", "ada", "2", "d2", 1, note='a "note",\nof two lines'), Event("judge", "grace", "2", "d1", None)
    )
    store.close()
    path = tmp_path / "made" / "judgements.csv"
    write(path, table(read(tmp_path)))
    with path.open(newline="") as file:
        assert list(csv.reader(file)) == [
            ["topic", "document", "grade", "assessor", "time", "note", "rationale"],
            ["2", "d2", "1", "ada", "2023-11-14T22:13:20.250Z", 'a "note",\nof two lines', ""],
            ["2", "d1", "", "grace", "2023-11-14T22:13:21.000Z", "", ""],
        ]
    assert qrels(read(tmp_path), "highest") == "2 0 d2 1\n"


def test_an_apostrophe_that_an_id_has_itself_is_kept(tmp_path):
    ids = ["'=d", "=d", "'d", "''=d"]
    store = Store(tmp_path, {"pool": "a"})
    store.append(*(Event("judge", "ada", "2", name, grade) for grade, name in enumerate(ids)))
    store.close()
    path = tmp_path / "judgements.csv"
    write(path, table(read(tmp_path)))
    assert sorted(read_qrels(path).select("document", "grade").rows()) == sorted(zip(ids, range(4), strict=True))


def test_without_second_judgements_there_is_no_second_file(tmp_path):
    assert write_qrels(judged(tmp_path, ("ada", "2", "d2", 0)), "highest", tmp_path / "qrels") is None
    with pytest.raises(BadInput, match="can't be written"):
        write_qrels(read(tmp_path), "highest", tmp_path / "qrels" / "below")


def kappa(first: Sequence[int], second: Sequence[int]) -> float | None:
    return cohen_kappa(Counter(zip(first, second, strict=True)))


@pytest.mark.filterwarnings("error")
def test_kappa_by_hand_and_where_it_is_not_defined():
    # 20 yes/yes, 5 yes/no, 10 no/yes, 15 no/no: observed .7, by chance .5 · .6 + .5 · .4 = .5.
    assert cohen_kappa({(1, 1): 20, (1, 0): 5, (0, 1): 10, (0, 0): 15}) == pytest.approx(0.4)
    # Three grades: observed 5/6, by chance (3·2 + 2·3 + 1·1) / 36 = 13/36.
    assert kappa([0, 0, 0, 1, 1, 2], [0, 0, 1, 1, 1, 2]) == pytest.approx((5 / 6 - 13 / 36) / (23 / 36))
    assert kappa([0, 1], [1, 0]) == -1
    assert kappa([0, 1, 3], [0, 1, 3]) == 1
    assert cohen_kappa({}) is None
    assert kappa([1, 1], [1, 1]) is None
    assert kappa([1, 1], [1, 0]) == 0


def alpha(rows: Sequence[str]) -> float | None:
    """Of the grades that assessors gave, a row each, a document a column; a dot where one did not judge it."""
    return krippendorff_alpha([int(grade) for grade in column if grade != "."] for column in zip(*rows, strict=True))


def test_alpha_of_the_example_of_its_author_and_at_its_ends():
    # Krippendorff 2011, data of four observers with gaps: ordinal .815.
    rows = ["123321412...", "1233224125.3", ".3332342251.", "1233244125" + "1."]
    assert alpha(rows) == pytest.approx(0.815, abs=0.0005)
    assert alpha(["0120", "0120", "0120"]) == 1
    assert alpha(["11", "11"]) is None
    assert alpha(["01", ".."]) is None
    worse = alpha(["0202", "2020"])
    assert worse < 0
    # Ordinal: a grade next to another is no disagreement like one far off.
    near, far = alpha(["001122", "011122"]), alpha(["001122", "021122"])
    assert near > far


def progress_of(relevant: list[bool]) -> TopicProgress:
    progress = TopicProgress()
    for document, each in enumerate(relevant):
        progress.set(document, each)
    return progress


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.integers(0, 200), st.sampled_from([0.5, 0.8, 0.9]))
def test_the_page_says_stop_when_the_rule_does(relevant, rest, target):
    rule = TargetRecall(target)
    whole = np.array(relevant + [False] * rest)
    said = progress_of(relevant).recall(len(whole), 0, rule)
    assert (said is not None and said.may_stop) == bool(rule.holds(whole)[len(relevant) - 1])
    if said is not None:
        assert 0 <= said.most <= rest
        assert said.recall == pytest.approx(sum(relevant) / (sum(relevant) + said.most))


def test_what_was_known_before_counts_as_found():
    progress = progress_of([True] * 5 + [False] * 40)
    alone, more = (progress.recall(100, known, TargetRecall(0.9)) for known in (0, 95))
    assert more.most == alone.most
    assert more.recall == pytest.approx(100 / (100 + more.most))
    assert progress_of([False] * 9).recall(10, 3, TargetRecall()) is None
    assert progress.recall(45, 0, TargetRecall()) == (0, 1.0, True)


@given(st.lists(st.booleans(), max_size=25), st.integers(0, 15))
def test_the_interval_holds_nine_tenths(judged, left):
    found, recent = progress_of(judged).ahead(left), judged[-20:]
    if found is None:
        assert left == 0
        return
    assert found.documents == min(left, 10)
    number = betabinom(min(left, 10), 0.5 + sum(recent), 0.5 + len(recent) - sum(recent))
    assert number.cdf(found.high) - number.cdf(found.low - 1) >= 0.9 - 1e-9
    assert number.cdf(found.low - 1) < 0.05
    assert found.mean == pytest.approx(min(left, 10) * (0.5 + sum(recent)) / (1 + len(recent)))


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([True, False, None])), max_size=40))
def test_running_figures_are_those_of_all_judgements(changes):
    progress, kept = TopicProgress(), dict[int, bool]()
    for document, relevant in changes:
        if relevant is None and document not in kept:
            continue
        progress.set(document, relevant)
        if relevant is None:
            del kept[document]
        else:
            kept[document] = relevant
    order = list(kept.values())
    assert len(progress) == len(order)
    assert progress.found == sum(order)
    assert progress.places == pytest.approx(sum(place + 0.5 for place, relevant in enumerate(order) if relevant))
    assert progress.curve() == [(place, sum(order[:place])) for place in range(1, len(order) + 1) if order[place - 1]]


@given(st.lists(st.booleans(), min_size=1, max_size=30), st.lists(st.integers(0, 30), max_size=9), st.data())
def test_documents_that_no_run_has_change_neither_the_curve_nor_what_is_left(relevant, places, data):
    alone, size = progress_of(relevant), len(relevant) + 12
    progress, found = TopicProgress(size), 0
    for place in range(31):
        for _ in range(places.count(place)):
            found += 1
            progress.set(size + found, data.draw(st.booleans()))
        if place < len(relevant):
            progress.set(place, relevant[place])
    assert (len(progress), progress.pooled) == (len(relevant) + found, alone.pooled)
    rule = TargetRecall()
    for estimate in (
        lambda each: each.curve(),
        lambda each: each.ahead(12),
        lambda each: each.recall(size, 0, rule),
        lambda each: each.places,
    ):
        assert estimate(progress) == estimate(alone)


def test_a_long_curve_has_few_points_and_its_last():
    curve = progress_of([document % 2 == 1 for document in range(5000)]).curve()
    assert len(curve) <= CURVE_POINTS
    assert curve[-1] == (5000, 2500)
    assert all(judged == 2 * found for judged, found in curve)
