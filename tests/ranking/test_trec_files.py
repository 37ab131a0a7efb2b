"""TREC run and qrels files: what is read, how each kind of bad input is named, and judgements that are replaced."""

import gzip
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.errors import BadInput
from pyrite.ranking.ranked_lists import RankedLists, stack_lists
from pyrite.ranking.relabel import relabelled
from pyrite.ranking.run_files import lists_of_run
from pyrite.ranking.trec_files import check_ids, read_qrels, read_run, write_qrels, write_run

NAMES = st.text("abcXYZ019-_.é/", min_size=1, max_size=12)
GAPS = st.sampled_from([" ", "\t", "   ", " \t "])


def test_run_is_read_in_file_order(tmp_path):
    path = tmp_path / "a.run"
    path.write_text("401 Q0 FT-1 1 320 mine\n401\tQ0\tFBIS-2   2 2.51e2 mine\r\n\n402 Q0 FT-9 0 -1.5 mine")
    run = read_run(path)
    assert run.columns == ["query", "document", "rank", "score", "tag"]
    assert run.dtypes == [pl.String, pl.String, pl.Int32, pl.Float64, pl.String]
    assert run.rows() == [
        ("401", "FT-1", 1, 320.0, "mine"),
        ("401", "FBIS-2", 2, 251.0, "mine"),
        ("402", "FT-9", 0, -1.5, "mine"),
    ]


def test_qrels_plain_and_gzip_are_the_same(tmp_path):
    text = "1 0 a 1\n1 0 b -2\n2 Q0 a 0\n"
    (tmp_path / "plain").write_text(text)
    (tmp_path / "packed.gz").write_bytes(gzip.compress(text.encode()))
    qrels = read_qrels(tmp_path / "plain")
    assert qrels.rows() == [("1", "a", 1), ("1", "b", -2), ("2", "a", 0)]
    assert qrels["grade"].dtype == pl.Int32
    assert qrels.equals(read_qrels(tmp_path / "packed.gz"))


@pytest.mark.parametrize(
    ("read", "broken", "complaint"),
    [
        (read_run, "1 0 d 1", "not 6 columns"),
        (read_run, "1 Q0 two words 1 2.0 tag", "the last column is the number '2.0', and text follows: has an id a bl"),
        (read_run, "1 Q0 d 1 2,5 tag", "score '2,5' is not a number: write a point, not a comma"),
        (read_run, "1 Q0 d 1 high tag", "score 'high' is not a number"),
        (read_run, "1 Q0 d 1 nan tag", "score 'nan' is not a number"),
        (read_qrels, "1 d 1", "not 4 columns"),
        (read_qrels, "1 0 d 0.5", "grade '0.5'"),
        (read_qrels, "1 0 d 99999999999", "grade '99999999999'"),
    ],
)
def test_a_broken_line_is_named_or_left_out(tmp_path, read, broken, complaint):
    path = tmp_path / "file"
    whole = "1 Q0 {} 1 2.0 tag" if read is read_run else "1 0 {} 1"
    path.write_text(f"{whole.format('a')}\n\n{broken}\n{whole.format('b')}\n")
    with pytest.raises(BadInput, match=complaint) as raised:
        read(path)
    assert str(raised.value).startswith(f"{path}:3: ")
    assert read(path, faults=Faults(False))["document"].to_list() == ["a", "b"]


@pytest.mark.parametrize("strict", [True, False])
def test_missing_empty_and_mislabelled_files(tmp_path, strict):
    with pytest.raises(BadInput, match="no such file"):
        read_run(tmp_path / "none", faults=Faults(strict))
    with pytest.raises(BadInput, match="cannot be read"):
        read_run(tmp_path, faults=Faults(strict))
    (tmp_path / "empty").write_text("\n \n")
    with pytest.raises(BadInput, match="lines in it"):
        read_run(tmp_path / "empty", faults=Faults(strict))
    (tmp_path / "plain.gz").write_text("1 0 a 1\n")
    with pytest.raises(BadInput, match="not a gzip file"):
        read_qrels(tmp_path / "plain.gz", faults=Faults(strict))


PACKED = gzip.compress("".join(f"{i % 7} 0 document-{i} {i % 2}\n" for i in range(400)).encode())


@given(length=st.integers(0, len(PACKED) - 1), strict=st.booleans())
def test_any_truncation_of_a_gzip_is_noticed(tmp_path_factory, length, strict):
    path = tmp_path_factory.getbasetemp() / "truncated.gz"
    path.write_bytes(PACKED[:length])
    with pytest.raises(BadInput, match=r"truncated\.gz"):
        read_qrels(path, faults=Faults(strict))


@given(
    rows=st.lists(
        st.tuples(NAMES, NAMES, st.integers(-(2**31), 2**31 - 1), st.floats(allow_nan=False), NAMES), min_size=1
    ),
    gap=GAPS,
)
def test_any_run_survives_being_written(tmp_path_factory, rows, gap):
    path = tmp_path_factory.getbasetemp() / "any.run"
    written = [gap.join((q, "Q0", d, str(rank), repr(score), tag)) for q, d, rank, score, tag in rows]
    path.write_text("\n".join(written), encoding="utf-8")
    assert read_run(path).rows() == rows


RUN = {"query": ["1", "1"], "document": ["a\u00a0b", "c"], "rank": [1, 2], "score": [1e-7, -0.1], "tag": ["t", "t"]}


@pytest.mark.parametrize("dtype", [pl.Float32, pl.Float64])
def test_what_is_written_reads_back(tmp_path, dtype):
    run = pl.DataFrame(RUN).with_columns(pl.col("score").cast(dtype))
    write_run(tmp_path / "a.run", run)
    read = read_run(tmp_path / "a.run")
    assert read.with_columns(pl.col("score").cast(dtype), pl.col("rank").cast(pl.Int64)).equals(run)
    qrels = run.select("query", "document", grade=pl.Series([-2, 3], dtype=pl.Int32))
    with (tmp_path / "qrels").open("wb") as stream:
        write_qrels(stream, qrels)
    assert (tmp_path / "qrels").read_text() == "1 0 a\u00a0b -2\n1 0 c 3\n"
    assert read_qrels(tmp_path / "qrels").equals(qrels)


@pytest.mark.parametrize("column", ["query", "document", "tag"])
@pytest.mark.parametrize("name", ["two words", "tab\tbed", "line\nbreak", ""])
def test_ids_that_a_file_cannot_hold_are_refused_before_it_is_written(tmp_path, column, name):
    run = pl.DataFrame(RUN | {column: ["fine", name]})
    with pytest.raises(BadInput, match=f"^mine: (a )?{column}") as error:
        write_run(tmp_path / "a.run", run, "mine")
    if name:
        assert repr(name) in str(error.value)
    if column != "tag":
        with pytest.raises(BadInput, match=column):
            write_qrels(tmp_path / "qrels", run.rename({"rank": "grade"}))
    assert not list(tmp_path.iterdir())


def test_all_ids_are_checked_and_counted():
    check_ids(pl.Series(["a", "b\u3000c"]), "document")
    with pytest.raises(BadInput, match=r"document 'a b' has a blank in it \(2 such ids\); a TREC file can't hold it"):
        check_ids(pl.Series(["x", "a b", "c d"]), "document")


def test_a_files_grades_take_the_place_of_the_collections(tmp_path, tiny):
    (tmp_path / "qrels").write_text("q1 0 d9 0\nq1 0 d10 1\nq1 0 nothing 1\nnobody 0 d9 1\nq1 0 d1 -1\nbroken\n")
    mended = relabelled(tiny, tmp_path / "qrels", strict=False)
    grades = {(query, document): grade for query, document, grade in mended.judgements.rows()}
    before = {(query, document): grade for query, document, grade in tiny.judgements.rows()}
    assert grades == before | {("q1", "d9"): 0, ("q1", "d10"): 1}
    assert mended.facts["judgements corrected"] == "2 (4 other lines left out)"
    assert mended.fingerprint != tiny.fingerprint
    assert mended.judgements.schema == tiny.judgements.schema


def test_judgements_of_something_else_are_refused(tmp_path, tiny):
    (tmp_path / "qrels").write_text("q1 0 nothing 1\n")
    with pytest.raises(BadInput, match="is it of tiny"):
        relabelled(tiny, tmp_path / "qrels")


def write(path: Path, lines: list[tuple[str, str, float]]) -> str:
    path.write_text("".join(f"{query} Q0 {document} 1 {score!r} tag\n" for query, document, score in lines))
    return str(path)


def listed(collection: Collection, documents: np.ndarray) -> list[list[str]]:
    return [[collection.documents["id"][int(document)] for document in row if document >= 0] for row in documents]


def test_a_list_is_ordered_as_trec_eval_orders_it(tmp_path, tiny):
    # The second and third scores are the same float32; the rank column says nothing.
    scored = [("q3", "d1", 0.5), ("q3", "d10", 2.0), ("q3", "d9", 2.0 + 1e-12), ("q3", "d2", 0.5), ("q1", "d7", -1.0)]
    lists = lists_of_run([write(tmp_path / "run", scored)], tiny, 10)
    assert lists.documents.shape == (8, 10)
    assert listed(tiny, lists.documents) == [["d7"], [], ["d9", "d10", "d2", "d1"], [], [], [], [], []]
    assert lists.scores[2, :5].tolist() == [2, 2, 0.5, 0.5, -np.inf]
    assert (lists.documents.dtype, lists.scores.dtype) == (np.int32, np.float32)


def test_lists_are_cut_to_the_depth(tmp_path, tiny):
    run = write(tmp_path / "run", [("q1", f"d{n}", n) for n in (1, 2, 4, 5, 7)])
    assert listed(tiny, lists_of_run([run], tiny, 2).documents)[0] == ["d7", "d5"]


def test_runs_of_different_queries_and_a_repeated_document(tmp_path, tiny):
    one = write(tmp_path / "one", [("q1", "d1", 1), ("q2", "d2", 1), ("elsewhere", "unheard", 3)])
    other = write(tmp_path / "other", [("q1", "d1", 2), ("q1", "d4", 1.5), ("q8", "d5", 1)])
    lists = lists_of_run([one, other], tiny, 3)
    assert listed(tiny, lists.documents) == [["d1", "d4"], ["d2"], [], [], [], [], [], ["d5"]]
    assert lists.scores[0].tolist() == [2, 1.5, -np.inf]


def test_a_document_that_the_collection_lacks_is_bad_input(tmp_path, tiny):
    good = write(tmp_path / "good", [("q1", "d1", 1)])
    bad = write(tmp_path / "bad", [("q1", "d1", 1), ("q2", "d99", 1), ("q2", "d98", 1)])
    with pytest.raises(BadInput, match=r"bad: unknown document: 'd99' of query 'q2' is not in tiny \(2 such lines\)"):
        lists_of_run([good, bad], tiny, 3)


def test_faults_are_left_out_and_counted_if_not_strict(tmp_path, tiny, caplog):
    run = write(tmp_path / "run", [("q1", "d1", 1), ("q2", "d99", 1)])
    Path(run).write_text(Path(run).read_text() + "q1 Q0 d2 1\n")
    with pytest.raises(BadInput, match=r"run:3: broken line"):
        lists_of_run([run], tiny, 3)
    assert listed(tiny, lists_of_run([run], tiny, 3, strict=False).documents)[:2] == [["d1"], []]
    assert "left out: 1 × broken line, 1 × unknown document" in caplog.text


def test_a_run_in_another_encoding(tmp_path, tiny):
    Path(tmp_path / "run").write_bytes("q1 Q0 d1 1 2.0 größe\n".encode("latin-1"))
    with pytest.raises(BadInput, match="wrong encoding"):
        lists_of_run([str(tmp_path / "run")], tiny, 3)
    assert listed(tiny, lists_of_run([str(tmp_path / "run")], tiny, 3, encoding="latin-1").documents)[0] == ["d1"]


def test_equal_and_endless_scores_are_told(tmp_path, tiny, caplog):
    lists_of_run([write(tmp_path / "run", [("q1", "d1", 1), ("q1", "d2", 1)])], tiny, None)
    assert "all scores of a query are equal; its documents are ordered by their ids" in caplog.text
    with pytest.raises(BadInput, match="score out of range: the score of 'd1' for query 'q1' is out of range"):
        lists_of_run([write(tmp_path / "run", [("q1", "d2", 1), ("q1", "d1", -1e99)])], tiny, None)


def lists() -> RankedLists:
    return stack_lists([(np.array([4, 2, 0]), np.array([3.0, 2.0, 1.0])), (np.array([], int), np.array([]))], 4)


def test_ragged_lists_are_made_rectangular_and_cut():
    stacked = lists()
    assert stacked.documents.tolist() == [[4, 2, 0, -1], [-1] * 4]
    assert stacked.scores.tolist() == [[3, 2, 1, -np.inf], [-np.inf] * 4]
    assert (stacked.documents.dtype, stacked.scores.dtype) == (np.int32, np.float32)
    assert stacked.counts.tolist() == [3, 0]
    assert stack_lists([(np.array([4, 2]), np.array([3.0, 2.0]))], 1).documents.tolist() == [[4]]
    assert stack_lists([], 3).documents.shape == (0, 3)


def test_keep_packs_to_the_left_in_the_same_order():
    kept = lists().keep(np.array([[True, False, True, True], [True] * 4]))
    assert kept.documents.tolist() == [[4, 0, -1, -1], [-1] * 4]
    assert kept.scores.tolist() == [[3, 1, -np.inf, -np.inf], [-np.inf] * 4]
    assert (kept.documents.dtype, kept.scores.dtype) == (np.int32, np.float32)


def test_take_takes_queries():
    assert lists().take(np.array([1, 0, 0])).counts.tolist() == [0, 3, 3]


def test_without_relevant(encoded_of):
    judgements = encoded_of([[1]] * 5, [[1]] * 2, {0: {2: 1, 4: 0, 3: 1}, 1: {0: 1}}).judgements
    assert lists().without_relevant(judgements).documents.tolist() == [[4, 0, -1, -1], [-1] * 4]


def test_queries_of_a_run_that_the_collection_lacks_are_counted(tiny, tmp_path, caplog):
    lists_of_run([write(tmp_path / "run", [("q1", "d1", 2), ("zzz", "d1", 1)])], tiny, None)
    assert "queries of the run that" in caplog.text
    assert "lacks: 1 (such as 'zzz'), left out" in caplog.text
    caplog.clear()
    lists_of_run([write(tmp_path / "run", [("q1", "d1", 2)])], tiny, None)
    assert not caplog.text


@pytest.mark.parametrize(
    ("quoted", "more", "read", "says"),
    [
        ('1,0,"d1,1', 1999, 0, "csv:2: broken line: a quote that begins here is never closed; write a quote within"),
        ('1,0,"d1,1', 19_999, 0, "csv:2: broken line: a quote that begins here is never closed"),  # above 128 KiB
        ('1,0,"d1,1\n2,0,"d2",1', 9, 9, "csv:2: broken line: a quote that begins here goes on to line 3"),
        ('1,0,"d"1,1', 9, 9, r"csv:2: broken line: not CSV \("),
        ('1,0,"d, 1",1', 9, 10, None),
    ],
)
def test_a_stray_quote_is_named_and_its_lines_are_counted(quoted, more, read, says, tmp_path):
    path, rows = tmp_path / "qrels.csv", [f"9,0,d{number},1" for number in range(more)]
    path.write_text("\n".join(["5,0,d5,1", quoted, *rows]) + "\n")
    faults = Faults(strict=False)
    assert len(read_qrels(path, faults=faults)) == read + 1
    assert faults.skipped == ({"broken line": 1 + quoted.count("\n") + more - read} if says else {})
    if says:
        with pytest.raises(BadInput, match=says):
            read_qrels(path)
