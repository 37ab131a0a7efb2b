"""Agreement, expectation, marking, texts and export."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import betabinom

from pooling.judging.agreement import cohen_kappa
from pooling.judging.documents import PooledDocuments, keep, kept, pooled
from pooling.judging.expectation import Expectation, expected_yield
from pooling.judging.export import disagreements, qrels, resolve, write_qrels
from pooling.judging.marking import Marking
from pooling.judging.store import Event, Kept, Store, read
from pooling.judging.topics import TopicText, read_topics, topics_of
from pooling.pool import Pool
from ranking.errors import BadInput


def test_kappa_by_hand() -> None:
    # 20 yes/yes, 5 yes/no, 10 no/yes, 15 no/no: observed .7, by chance .5 · .6 + .5 · .4 = .5.
    pairs = [(1, 1)] * 20 + [(1, 0)] * 5 + [(0, 1)] * 10 + [(0, 0)] * 15
    assert cohen_kappa(*zip(*pairs, strict=True)) == pytest.approx(0.4)
    # Three grades: observed 4/6, by chance (3·2 + 2·3 + 1·1) / 36 = 13/36.
    assert cohen_kappa([0, 0, 0, 1, 1, 2], [0, 0, 1, 1, 1, 2]) == pytest.approx((5 / 6 - 13 / 36) / (23 / 36))
    assert cohen_kappa([0, 1], [1, 0]) == -1
    assert cohen_kappa([0, 1, 3], [0, 1, 3]) == 1


def test_kappa_that_is_not_defined() -> None:
    assert math.isnan(cohen_kappa([], []))
    assert math.isnan(cohen_kappa([1, 1], [1, 1]))
    assert cohen_kappa([1, 1], [1, 0]) == 0
    with pytest.raises(ValueError, match="2 grades against 1"):
        cohen_kappa([1, 1], [1])


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40))
def test_kappa_is_symmetric_and_does_not_depend_on_names(pairs: list[tuple[int, int]]) -> None:
    first, second = zip(*pairs, strict=True)
    kappa = cohen_kappa(first, second)
    assert math.isnan(kappa) or kappa <= 1
    renamed = cohen_kappa([9 - 2 * grade for grade in second], [9 - 2 * grade for grade in first])
    assert renamed == pytest.approx(kappa, nan_ok=True)


def test_expected_yield_by_hand() -> None:
    # Nothing seen: Beta(½, ½) is even about a half, and five of ten are expected.
    assert expected_yield([], 100) == Expectation(10, pytest.approx(5), 0, 10, 0)
    # 5 of the last 20: 5.5 / 21 of ten.
    recent = expected_yield([True] * 30 + [True] * 5 + [False] * 15, 40)
    assert recent is not None
    assert recent.mean == pytest.approx(10 * 5.5 / 21)
    assert (recent.documents, recent.recent) == (10, 20)
    assert expected_yield([True], 3) == Expectation(3, pytest.approx(3 * 1.5 / 2), 0, 3, 1)
    assert expected_yield([True], 0) is None


@given(st.lists(st.booleans(), max_size=30), st.integers(1, 15))
def test_the_interval_is_the_beta_binomials(relevant: list[bool], left: int) -> None:
    recent = relevant[-20:]
    number = betabinom(min(left, 10), 0.5 + sum(recent), 0.5 + len(recent) - sum(recent))
    found = expected_yield(relevant, left)
    assert found is not None
    assert (found.low, found.high) == (number.ppf(0.05), number.ppf(0.95))
    assert found.mean == pytest.approx(number.mean())


def marked(query: str, text: str, stemming: str | None = "english") -> list[str]:
    return [piece for piece, is_term in Marking(query, stemming).pieces(text) if is_term]


def test_words_are_marked_by_their_stems() -> None:
    text = "The MOLE digs; moles' tunnelling, tunnels_and (Tunnel-vision)! molehill"
    assert marked("moles in the tunnels", text) == ["MOLE", "moles", "tunnelling", "tunnels", "Tunnel"]
    assert marked("moles in the tunnels", text, None) == ["moles", "tunnels"]
    assert marked("who is the who", "who is it") == ["who", "is"]  # stop words alone are all there is to go by
    assert marked("", "who is it") == []
    assert marked("İstanbul ÉCOLE", "istanbul é\u0301cole École") == ["École"]
    with pytest.raises(BadInput, match="no stemmer for 'klingon'"):
        Marking("x", "klingon")


@given(st.text(alphabet=st.sampled_from("aAbB é\u0301_-<>&İß\n9"), max_size=60), st.text(max_size=10))
def test_the_pieces_are_the_text(text: str, query: str) -> None:
    marking = Marking(f"{query} ab a9", "english")
    pieces = marking.pieces(text)
    assert "".join(piece for piece, _ in pieces) == text
    assert all(piece for piece, _ in pieces)


TREC = """<top>
<num> Number: 401
<title> moles, <b>tunnels</b>

<desc> Description:
Who digs?

<narr> Narrative:
Any mole &amp; all.
</top>
<top>
<num> 402 </num>
<desc> Bats </desc>
</top>
"""


def test_trec_topics_with_whatever_parts_they_have(tmp_path: Path) -> None:
    path = tmp_path / "topics.gz"
    path.write_bytes(gzip.compress(TREC.encode()))
    assert read_topics(path) == {
        "401": TopicText("moles,", "Who digs?", "Any mole & all."),  # the parser takes <b> for a field
        "402": TopicText("", "Bats", ""),
    }


def test_other_forms_of_topics(tmp_path: Path) -> None:
    path = tmp_path / "topics"
    path.write_text("7\tmoles\n\n8\tbats\tWhich bats?\tAll.\n")
    assert read_topics(path) == {"7": TopicText("moles"), "8": TopicText("bats", "Which bats?", "All.")}
    path.write_text(
        '{"_id": "7", "text": "moles"}\n{"id": 8, "title": "bats", "description": null, "narrative": "All."}\n'
    )
    assert read_topics(path) == {"7": TopicText("moles"), "8": TopicText("bats", "", "All.")}
    path.write_bytes("1\tMäuse\n".encode("latin-1"))
    assert read_topics(path, "latin-1") == {"1": TopicText("Mäuse")}
    assert topics_of(pl.DataFrame({"id": ["1"], "text": ["moles"]})) == {"1": TopicText("moles")}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "no topics"), ("no tab in it", ":1: broken line: not an id"), ("\tx", "broken line"),
        ("1\tmoles\n1\tbats", ":2: another topic is called '1'"), ("1\ta\tb\tc\td", "broken line"),
        ('{"_id": "1", "text": "x"}\n{', ":2: broken line"), ('{"text": "x"}', "no `_id`"),
        ('{"_id": true, "text": "x"}', "no `_id`"), ('{"_id": "1", "text": 5}', "not a string"),
        ("<top>\n<title> x\n</top>", "without <num>"),
    ],
)  # fmt: skip
def test_topics_that_are_none(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "topics"
    path.write_text(content)
    with pytest.raises(BadInput, match=says):
        read_topics(path)


def test_texts_of_the_pool_are_gathered_and_kept(tmp_path: Path, pool_of: object) -> None:
    pool: Pool = pool_of([[[0, 1], [1, 2]]], [[0, 0, 0]])  # type: ignore[operator]
    frames = [
        pl.DataFrame({"id": ["d001", "x"], "text": ["one", "other"], "category": [None, None]}),
        pl.DataFrame({"id": ["d001", "d002"], "text": ["one again", ""], "category": [None, None]}),
    ]
    path = tmp_path / "new" / "texts.arrow"
    assert kept(path) is None
    texts = PooledDocuments(keep(path, pooled(frames, pool)))
    assert [texts.text(name) for name in ("d000", "d001", "d002", "x")] == [None, "one", "", None]
    assert texts.missing(pool) == 1
    again = kept(path)
    assert again is not None
    assert again.rows() == [("d001", "one"), ("d001", "one again"), ("d002", "")]
    path.write_bytes(b"half")
    assert kept(path) is None
    assert [file.name for file in path.parent.iterdir()] == ["texts.arrow"]


KNOWN = pl.DataFrame(
    [("10", "d1", 2), ("2", "d9", 0), ("2", "d2", 1)], schema=["topic", "document", "grade"], orient="row"
)


def judged(folder: Path, *judgements: tuple[str, str, str, int]) -> Kept:
    store = Store(folder, {"pool": "a"}, KNOWN)
    store.append(*(Event("judge", assessor, topic, name, grade) for assessor, topic, name, grade in judgements))
    store.close()
    return read(folder)


def test_qrels_hold_what_was_judged_before_and_now(tmp_path: Path) -> None:
    kept_ = judged(
        tmp_path, ("ada", "2", "d2", 0), ("ada", "2", "d10", 1), ("grace", "2", "d10", 0), ("ada", "a", "d1", 3),
        ("grace", "a", "d1", 3),
    )  # fmt: skip
    for rule, grade in (("highest", 1), ("first", 1), ("last", 0)):
        assert qrels(kept_, rule).splitlines() == [  # type: ignore[arg-type]
            f"2 0 d10 {grade}", "2 0 d2 0", "2 0 d9 0", "10 0 d1 2", "a 0 d1 3",
        ]  # fmt: skip
    path = tmp_path / "new" / "qrels.txt"
    beside = write_qrels(kept_, "last", path)
    assert path.read_text() == qrels(kept_, "last")
    assert beside == path.with_name("qrels.txt.disagreements.tsv")
    assert beside.read_text() == disagreements(kept_, "last")
    assert beside.read_text().splitlines()[1:] == ["2\td10\t0\tada\t1\tgrace\t0"]
    assert sorted(file.name for file in path.parent.iterdir()) == ["qrels.txt", "qrels.txt.disagreements.tsv"]


def test_without_second_judgements_there_is_no_second_file(tmp_path: Path) -> None:
    assert write_qrels(judged(tmp_path, ("ada", "2", "d2", 0)), "highest", tmp_path / "qrels") is None
    with pytest.raises(BadInput, match="can't be written"):
        write_qrels(read(tmp_path), "highest", tmp_path / "qrels" / "below")


@given(st.lists(st.integers(-2, 4), min_size=1, max_size=2))
def test_every_rule_takes_a_grade_that_was_given(grades: list[int]) -> None:
    assert resolve(grades, "highest") == max(grades)
    assert resolve(grades, "first") == grades[0]
    assert resolve(grades, "last") == grades[-1]
