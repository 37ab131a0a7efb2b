"""TREC run and qrels files: what is read, and how each kind of bad input is named."""

import gzip

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranking.collections import lines
from ranking.collections.faults import Faults
from ranking.errors import BadInput
from ranking.trec_files import check_ids, read_qrels, read_run, write_qrels, write_run

NAMES = st.text("abcXYZ019-_.é/", min_size=1, max_size=12)
GAPS = st.sampled_from([" ", "\t", "   ", " \t "])


def test_run_is_read_in_file_order(tmp_path):
    path = tmp_path / "a.run"
    path.write_text("401 Q0 FT-1 1 320 mine\n401\tQ0\tFBIS-2   2 2.51e2 mine\r\n\n402 Q0 FT-9 0 -1.5 mine")
    run = read_run(path)
    assert run.schema == {
        "query": pl.String,
        "document": pl.String,
        "rank": pl.Int32,
        "score": pl.Float64,
        "tag": pl.String,
    }
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
    ("broken", "complaint"),
    [
        ("1 0 d 1", "not 6 columns"),
        ("1 Q0 two words 1 2.0 tag", "score '1'|the last column is the number '2.0', and text follows"),
        ("1 Q0 d 1 2,5 tag", "score '2,5' is not a number: write a point, not a comma"),
        ("1 Q0 d 1 high tag", "score 'high' is not a number"),
        ("1 Q0 d 1 nan tag", "score 'nan' is not a number"),
    ],
)
def test_broken_run_line_is_named_or_left_out(tmp_path, broken, complaint):
    path = tmp_path / "a.run"
    path.write_text(f"1 Q0 a 1 2.0 tag\n\n{broken}\n1 Q0 b 2 1.0 tag\n")
    with pytest.raises(BadInput, match=complaint) as raised:
        read_run(path)
    assert str(raised.value).startswith(f"{path}:3: ")
    assert read_run(path, faults=Faults(False))["document"].to_list() == ["a", "b"]


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [("1 d 1", "not 4 columns"), ("1 0 d 0.5", "grade '0.5'"), ("1 0 d 99999999999", "grade '99999999999'")],
)
def test_broken_qrels_line_is_named_or_left_out(tmp_path, broken, complaint):
    path = tmp_path / "qrels.txt"
    path.write_text(f"1 0 a 1\n{broken}\n")
    with pytest.raises(BadInput, match=complaint) as raised:
        read_qrels(path)
    assert str(raised.value).startswith(f"{path}:2: ")
    assert read_qrels(path, faults=Faults(False)).rows() == [("1", "a", 1)]


def test_wrong_encoding_names_the_line(tmp_path):
    path = tmp_path / "qrels.txt"
    path.write_bytes("1 0 a 1\n1 0 caf\xe9 1\n1 0 b 1\n".encode("latin-1"))
    with pytest.raises(BadInput, match=r"qrels\.txt:2: wrong encoding: byte 0xe9 is not utf-8"):
        read_qrels(path)
    assert read_qrels(path, faults=Faults(False))["document"].to_list() == ["a", "b"]


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


def test_line_numbers_hold_across_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "BLOCK", 16)
    path = tmp_path / "qrels.txt"
    path.write_text("".join(f"1 0 doc{i} 1\n" for i in range(50)) + "1 0 doc\n")
    with pytest.raises(BadInput, match=r"qrels\.txt:51:"):
        read_qrels(path)
    assert len(read_qrels(path, faults=Faults(False))) == 50


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


def test_real_runs_and_judgements(shared_data):
    qrels = read_qrels(shared_data / "trec8" / "qrels.txt.gz")
    assert (qrels["query"].n_unique(), len(qrels), (qrels["grade"] > 0).sum()) == (50, 86_830, 4_728)
    graded = read_qrels(shared_data / "dl19" / "qrels.txt.gz")
    assert (graded["query"].n_unique(), len(graded), graded["grade"].max()) == (43, 9_260, 3)
    run = read_run(shared_data / "trec8" / "runs" / "input.CL99SD.gz")
    assert run["query"].n_unique() == 50
    assert set(run["tag"]) == {"CL99SD"}


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
