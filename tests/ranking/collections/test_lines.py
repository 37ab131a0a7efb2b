"""Reading text in blocks of whole lines: numbers, encodings, damaged files."""

import gzip

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranking.collections import lines as reading
from ranking.collections.faults import Faults
from ranking.collections.lines import blocks, lines, tables
from ranking.collections.row_files import TextOptions, read_rows
from ranking.errors import BadInput

NO_BREAK = st.text(st.characters(blacklist_characters="\n\ufeff", blacklist_categories=["Cs"]), max_size=20)


@given(texts=st.lists(NO_BREAK), packed=st.booleans(), block=st.integers(1, 40))
def test_every_line_comes_with_its_number(tmp_path_factory, texts, packed, block):
    path = tmp_path_factory.getbasetemp() / "any_lines"
    raw = "\n".join(texts).encode()
    path.write_bytes(gzip.compress(raw) if packed else raw)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "BLOCK", block)
        read = list(lines(path, Faults()))
        assert "".join(text for _, text in blocks(path, Faults())) == raw.decode()
    assert read == [(n, text) for n, text in enumerate(texts, 1) if text.strip()]


@pytest.mark.nightly
@given(rows=st.lists(st.tuples(st.text("ab é", max_size=5), st.integers(-9, 9))), block=st.integers(1, 40))
def test_tables_keep_empty_fields_and_lines(tmp_path_factory, rows, block):
    path = tmp_path_factory.getbasetemp() / "any_table"
    path.write_text("\n".join(f"{text}\t{number}" for text, number in rows), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "BLOCK", block)
        read = list(tables(path, {"text": pl.String(), "number": pl.Int32()}, Faults(), separator="\t"))
    assert [row for frame in read for row in frame.rows()] == [(*row, n) for n, row in enumerate(rows, 1)]


def test_a_header_is_passed_over_only_where_there_is_one(tmp_path):
    columns = {"query": pl.String(), "grade": pl.Int32()}
    path = tmp_path / "table.tsv"
    for text, expected in (("query\tgrade\na\t1\n", [("a", 1, 2)]), ("a\t1\nb\t2\n", [("a", 1, 1), ("b", 2, 2)])):
        path.write_text(text)
        assert next(tables(path, columns, Faults(), separator="\t", header=("query",))).rows() == expected
    path.write_text("query grade\na\t1\n")
    with pytest.raises(BadInput, match="not 2 columns"):
        list(tables(path, columns, Faults(), separator="\t", header=("query",)))
    path.write_text("query\tgrade\na\tb\n")
    with pytest.raises(BadInput, match=r"table\.tsv:2: broken line: grade 'b'"):
        list(tables(path, columns, Faults(), separator="\t", header=("query",)))


def test_other_encodings_windows_lines_and_byte_order_marks(tmp_path):
    path = tmp_path / "text"
    path.write_bytes("caf\xe9\r\nth\xe9".encode("latin-1"))
    assert [line.rstrip() for _, line in lines(path, Faults(), "latin-1")] == ["café", "thé"]
    path.write_bytes(b"\xef\xbb\xbffirst")
    assert list(lines(path, Faults())) == [(1, "first")]


def test_lines_in_another_encoding_are_counted(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"good\ncaf\xe9\ngood\n\xff\n")
    with pytest.raises(BadInput, match=r"text:2: wrong encoding: byte 0xe9 is not utf-8; .*latin-1"):
        list(lines(path, Faults()))
    faults = Faults(strict=False)
    assert list(lines(path, faults)) == [(1, "good"), (3, "good")]
    assert faults.skipped == {"wrong encoding": 2}


@pytest.mark.parametrize(("encoding", "complaint"), [("klingon", "unknown encoding"), ("utf-16", "line by line")])
def test_encodings_that_cannot_be_read(tmp_path, encoding, complaint):
    (tmp_path / "text").write_text("a\n")
    with pytest.raises(BadInput, match=complaint):
        list(lines(tmp_path / "text", Faults(), encoding))


@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv", "rows.jsonl", "rows.json"])
@pytest.mark.parametrize("encoding", ["utf9", "hex"])
def test_an_unknown_encoding_is_refused_for_every_form_of_rows(tmp_path, name, encoding):
    (tmp_path / name).write_text('[{"query": "a", "positive": "b"}]')
    with pytest.raises(BadInput, match=rf"{name}: unknown encoding '{encoding}'; utf-8 and cp1252"):
        next(read_rows(tmp_path / name, Faults(), TextOptions(encoding=encoding)))


def test_a_damaged_gzip_is_an_error_even_when_not_strict(tmp_path):
    packed = bytearray(gzip.compress(b"a line of text\n" * 1000))
    packed[-6] ^= 0xFF  # the check sum
    (tmp_path / "damaged.gz").write_bytes(packed)
    with pytest.raises(BadInput, match=r"damaged\.gz:\d+: truncated or damaged"):
        list(lines(tmp_path / "damaged.gz", Faults(strict=False)))


def test_faults_are_raised_or_counted():
    with pytest.raises(BadInput, match=r"^a\.tsv:3: broken line: no text; fix it"):
        Faults().report("broken line", "no text", "a.tsv", 3)
    faults = Faults(strict=False)
    faults.report("broken line", "no text", "a.tsv", 3)
    faults.report("broken line", "no text", "a.tsv", 9, times=2)
    faults.report("empty text", "nothing", "a.tsv")
    assert faults.skipped == {"broken line": 3, "empty text": 1}
