"""Documents in several pieces: everything that is made of them is what one piece gives."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pyrite.ranking.collections import pieces
from pyrite.ranking.collections.beir import Beir
from pyrite.ranking.collections.cache import open_collection
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.collections.lines import lines
from pyrite.ranking.collections.msmarco import MsMarco
from pyrite.ranking.collections.reader import groups_of, spans_of
from pyrite.ranking.collections.trec import Trec
from pyrite.ranking.errors import BadInput
from tests.made_up import seventh_of, write_beir


@pytest.fixture
def folder(tmp_path) -> Path:
    """A collection whose ids are not in the order of their documents."""
    made = write_beir(tmp_path / "made_up", documents=700)
    seventh_of(made)  # which unpacks it
    return made


@pytest.fixture
def small_pieces(folder, monkeypatch) -> int:
    """Pieces of a seventh of the documents."""
    size = -(-(folder / "corpus.jsonl").stat().st_size // 7)
    monkeypatch.setattr(pieces, "PIECE", size)
    return size


def opened(reader: Beir | MsMarco, cache: Path, strict: bool = True) -> Collection:
    """Read anew, in whatever order tasks happen to be done."""

    def run(task: Callable[[int], None], count: int) -> None:
        for number in reversed(range(count)):
            task(number)

    return open_collection(reader, cache, strict, run)


def test_seven_pieces_hold_what_one_does(folder, tmp_path, monkeypatch):
    whole = open_collection(Beir(folder), tmp_path / "one")
    assert whole.pieces == ()
    assert whole.ids is None
    monkeypatch.setattr(pieces, "PIECE", -(-(folder / "corpus.jsonl").stat().st_size // 7))
    parts = opened(Beir(folder), tmp_path / "seven")
    assert len(parts.pieces) == 7
    assert parts.ids is not None
    assert parts.fingerprint == whole.fingerprint
    for name in ("documents", "queries", "judgements"):
        assert getattr(parts, name).equals(getattr(whole, name))
    assert (parts.document_keys() == whole.document_keys()).all()
    asked = pl.Series(["zzz", *whole.documents["id"].sample(50, seed=1), "", "!", str(whole.documents["id"][0])])
    assert parts.document_rows(asked).to_list() == whole.document_rows(asked).to_list()
    assert open_collection(Beir(folder), tmp_path / "seven").pieces == parts.pieces  # found again
    for file in parts.pieces[0].parent.iterdir():
        assert file.name.startswith(("documents-", "ids-", "queries", "judgements", "collection"))
    for missing in ("documents-00003.arrow", "ids-00002.arrow"):
        (parts.pieces[0].parent / missing).unlink()
        again = open_collection(Beir(folder), tmp_path / "seven")  # read again
        assert (parts.pieces[0].parent / missing).exists()
        assert again.documents.equals(whole.documents)


@pytest.mark.nightly
def test_ms_marco_is_read_in_spans_too(folder, tmp_path, monkeypatch):
    beir, other = open_collection(Beir(folder), tmp_path / "beir"), tmp_path / "other"
    other.mkdir()
    beir.documents.select("id", "text").write_csv(other / "collection.tsv", separator="\t", include_header=False)
    beir.queries.select("id", "text").write_csv(other / "queries.dev.tsv", separator="\t", include_header=False)
    qrels = beir.judgements.select("query", pl.lit(0), "document", "grade")
    qrels.write_csv(other / "qrels.dev.tsv", separator="\t", include_header=False)
    whole = open_collection(MsMarco(other), tmp_path / "one")
    monkeypatch.setattr(pieces, "PIECE", 3000)
    parts = opened(MsMarco(other), tmp_path / "many")
    assert len(parts.pieces) == len(spans_of(other / "collection.tsv", 3000))
    assert parts.fingerprint == whole.fingerprint


def test_files_of_a_trec_collection_are_read_beside_each_other(folder, tmp_path, monkeypatch):
    beir, other = open_collection(Beir(folder), tmp_path / "beir"), tmp_path / "other"
    (other / "docs").mkdir(parents=True)
    rows = beir.documents.select("id", "text").rows()
    for number in range(10):
        text = "".join(f"<DOC>\n<DOCNO>{id}</DOCNO>\n{text}\n</DOC>\n" for id, text in rows[number::10])
        packed = number % 3 == 0
        content = gzip.compress(text.encode()) if packed else text.encode()
        (other / "docs" / f"{number}{'.gz' * packed}").write_bytes(content)
    topics = "".join(f"<top>\n<num> {id}\n<title> {text}\n</top>\n" for id, text in beir.queries["id", "text"].rows())
    (other / "topics").write_text(topics)
    qrels = beir.judgements.select("query", pl.lit(0), "document", "grade")
    qrels.write_csv(other / "qrels", separator=" ", include_header=False)
    whole = open_collection(Trec(other), tmp_path / "one")
    assert len(whole.documents) == len(beir.documents)
    assert whole.pieces == ()
    monkeypatch.setattr(pieces, "PIECE", 9000)
    parts = opened(Trec(other), tmp_path / "many")
    assert 3 < len(parts.pieces) == len(groups_of(sorted((other / "docs").iterdir()), 9000))
    assert parts.fingerprint == whole.fingerprint
    for size in (1, 9000, 10**9):
        groups = groups_of(sorted((other / "docs").iterdir()), size)
        assert [file for group in groups for file in group] == sorted((other / "docs").iterdir())
        assert all(sum(file.stat().st_size for file in group) >= size for group in groups[:-1])
    with (other / "docs" / "4").open("a") as file:
        file.write(f"<DOC>\n<DOCNO>{rows[1][0]}</DOCNO>\nagain\n</DOC>\n")
    with pytest.raises(BadInput, match=r"docs/4:\d+: duplicate id: another document is called"):
        opened(Trec(other), tmp_path / "broken")


def test_a_packed_file_is_cut_into_pieces_as_it_is_read(folder, tmp_path, small_pieces):
    whole = opened(Beir(folder), tmp_path / "plain")
    (folder / "corpus.jsonl.gz").write_bytes(gzip.compress((folder / "corpus.jsonl").read_bytes()))
    (folder / "corpus.jsonl").unlink()
    parts = opened(Beir(folder), tmp_path / "packed")
    assert parts.pieces == ()  # a chunk that is read at once is not cut
    assert parts.fingerprint == whole.fingerprint


@pytest.mark.parametrize(("line", "said"), [
    ("{", r"corpus.jsonl:701: broken line: not JSON"),
    (json.dumps({"_id": "d1", "text": "again"}), r"corpus.jsonl:701: duplicate id: another document is called 'd1'"),
])  # fmt: skip
def test_faults_are_named_by_their_line_and_may_be_skipped(folder, tmp_path, small_pieces, line, said):
    whole = opened(Beir(folder), tmp_path / "sound")
    with (folder / "corpus.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(BadInput, match=said):
        opened(Beir(folder), tmp_path / "broken")
    skipping = opened(Beir(folder), tmp_path / "broken", strict=False)
    assert sum(skipping.skipped.values()) == 1
    assert skipping.documents.equals(whole.documents)
    assert skipping.fingerprint == whole.fingerprint


def test_every_line_is_in_one_span(tmp_path):
    rng, file = np.random.default_rng(3), tmp_path / "file"
    written = ["x" * int(length) for length in rng.integers(1, 60, 60)]
    for end in ("\n", ""):
        file.write_text("\n".join(written) + end)
        for size in (13, 60, 1000, 10**6):
            read = [line for span in spans_of(file, size) for _, line in lines(file, Faults(), within=span)]
            assert read == written
