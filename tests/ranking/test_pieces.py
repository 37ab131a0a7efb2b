"""Collections in pieces: what comes out is what one piece gives."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pyrite.ranking import bm25_pieces
from pyrite.ranking.alike import digests
from pyrite.ranking.bm25 import Bm25, Bm25Options
from pyrite.ranking.bm25_pieces import PiecedBm25
from pyrite.ranking.checkpoint import from_bytes, to_bytes
from pyrite.ranking.collections import pieces
from pyrite.ranking.collections.beir import Beir
from pyrite.ranking.collections.cache import open_collection
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.collections.pieces import in_turn
from pyrite.ranking.encoding import Encoder
from pyrite.ranking.encoding_pieces import encode_in_pieces
from pyrite.ranking.errors import BadInput
from pyrite.ranking.mapped import MappedArray, open_array, write_array
from pyrite.ranking.pieced_array import PiecedArray
from pyrite.ranking.text_pieces import encode_pieces
from pyrite.ranking.texts import Texts
from tests.examples import few
from tests.made_up import seventh_of, write_beir
from tests.ranking.trained import equal

ENCODER = Encoder(min_count=2, max_document=11)


@pytest.fixture(scope="module")
def both(tmp_path_factory) -> tuple[Collection, Collection]:
    """The same collection in one piece and in seven."""
    folder = write_beir(tmp_path_factory.mktemp("made_up"), documents=300)
    size = seventh_of(folder)
    whole = open_collection(Beir(folder), folder / "one")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "PIECE", size)
        return whole, open_collection(Beir(folder), folder / "seven")


def arrays(texts: Texts) -> list[bytes]:
    return [np.asarray(each).tobytes() for each in (texts.tokens, texts.offsets, texts.labels)]


def test_seven_pieces_are_encoded_as_one_is(both, tmp_path):
    whole, parts = both
    assert len(parts.pieces) == 7
    expected, words = ENCODER.encode(whole)
    found, same_words = encode_in_pieces(ENCODER, parts, tmp_path / "key", in_turn)
    assert words == same_words
    assert arrays(found.documents) == arrays(expected.documents)
    assert arrays(found.queries) == arrays(expected.queries)
    for name in ("idf", "split", "document_key"):
        assert getattr(found, name).tobytes() == getattr(expected, name).tobytes()
    for name in ("offsets", "documents", "grades"):
        assert getattr(found.judgements, name).tobytes() == getattr(expected.judgements, name).tobytes()
    assert isinstance(found.documents.tokens, PiecedArray)
    assert isinstance(found.documents.offsets, MappedArray)
    rows = np.array([299, 0, 0, 150, 42])
    for reach in (None, 3):
        assert digests(found.documents, rows, reach).tolist() == digests(expected.documents, rows, reach).tolist()
    assert arrays(found.documents.take(rows)) == arrays(expected.documents.take(rows))
    # A state names the files and a process gets their names.
    kept = to_bytes(found.documents)
    assert len(kept) < 2000
    assert arrays(Texts(**from_bytes(kept, "part", tmp_path))) == arrays(expected.documents)
    assert len(pickle.dumps(found.documents)) < 2000
    assert arrays(pickle.loads(pickle.dumps(found.documents))) == arrays(expected.documents)
    with pytest.raises(BadInput, match="names files beside it"):
        from_bytes(kept, "elsewhere")


@pytest.mark.parametrize("many", [1, 1000])
def test_seven_pieces_are_searched_as_one_is(many, both, monkeypatch):
    monkeypatch.setattr(bm25_pieces, "MANY", many)
    whole, parts = both
    index, asked = PiecedBm25(parts, Bm25Options()), np.arange(len(whole.queries))
    assert equal(index.search(asked, 20), Bm25(whole, Bm25Options()).search(asked, 20))
    assert not list(index.folder.rglob("found-*"))
    rows = np.array([299, 0, 0, 150, 42])
    assert parts.gather("text", rows).to_list() == whole.gather("text", rows).to_list()
    made = {file: file.stat().st_mtime_ns for file in index.folder.rglob("*") if file.is_file()}
    again = PiecedBm25(parts, Bm25Options())
    assert again.ranges == index.ranges
    assert {file: file.stat().st_mtime_ns for file in index.folder.rglob("*") if file.is_file()} == made


def test_what_is_encoded_before_an_interrupt_is_not_encoded_again(both, tmp_path):
    def make() -> Callable[[object], Texts]:
        return lambda frame: Texts.of([[len(text)] for text in frame["text"]])

    def interrupted(task: Callable[[int], None], count: int) -> None:
        in_turn(task, 4)
        raise KeyboardInterrupt

    files = both[1].pieces
    with pytest.raises(KeyboardInterrupt):
        encode_pieces(files, tmp_path, make, interrupted)
    before = {file.name: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    assert len(before) == 8  # two files of four pieces

    def look(task: Callable[[int], None], count: int) -> None:
        in_turn(task, count)
        after = {file.name: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
        assert len(after) == 14
        assert before.items() <= after.items()

    texts = encode_pieces(files, tmp_path, make, look)
    tokens = [f"tokens-{number:05d}.npy" for number in range(7)]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["offsets.npy", "starts.npy", *tokens]
    assert texts.tokens[:].tolist() == [len(text) for text in both[0].documents["text"]]
    assert encode_pieces(files, tmp_path, make, look).tokens[:].tolist() == texts.tokens[:].tolist()


def test_what_is_cut_out_of_a_mapped_array_goes_along_as_numbers(tmp_path):
    write_array(tmp_path / "a.npy", np.arange(5))
    write_array(tmp_path / "none.npy", np.zeros(0, np.int32))
    array = open_array(tmp_path / "a.npy")
    assert open_array(tmp_path / "none.npy").shape == (0,)
    assert pickle.loads(pickle.dumps(array[2:4])).tolist() == [2, 3]
    gone = pickle.dumps(replace(Texts(array, array), labels=None))
    (tmp_path / "a.npy").unlink()
    assert pickle.loads(pickle.dumps(array[2:4])).tolist() == [2, 3]  # still open here
    with pytest.raises(BadInput, match=r"a\.npy: can't be read on this machine"):
        pickle.loads(gone)


LENGTHS = [4, 0, 3, 1, 0]


@pytest.fixture(scope="module")
def pieced(tmp_path_factory) -> PiecedArray:
    return written(tmp_path_factory.mktemp("pieces"))


def written(folder: Path) -> PiecedArray:
    """The numbers 10 to 17."""
    starts = np.cumsum([0, *LENGTHS])
    files = tuple(folder / f"{number}.npy" for number in range(len(LENGTHS)))
    for file, start, length in zip(files, starts, LENGTHS, strict=False):
        write_array(file, np.arange(10 + start, 10 + start + length, dtype=np.int32))
    return PiecedArray(files, starts)


WHOLE: NDArray[np.int32] = np.arange(10, 18, dtype=np.int32)


@given(st.slices(8).filter(lambda each: (each.step or 1) > 0))
@few(30)
def test_a_slice_is_that_of_the_whole(pieced, part):
    assert pieced[part].tolist() == WHOLE[part].tolist()
    assert pieced[part].dtype == np.int32


@given(st.lists(st.integers(0, 7), max_size=20))
@few(30)
def test_positions_are_those_of_the_whole(pieced, places):
    positions = np.array(places, np.int64)
    assert pieced[positions].tolist() == WHOLE[positions].tolist()
    assert pieced[positions[:, None]].tolist() == WHOLE[positions[:, None]].tolist()


def test_all_of_it(pieced):
    assert len(pieced) == 8
    assert np.asarray(pieced).tolist() == WHOLE.tolist()
    assert np.concatenate([pieced, WHOLE[:1]]).tolist() == [*WHOLE.tolist(), 10]
    with pytest.raises(ValueError, match="forwards"):
        pieced[::-1]


def test_a_file_that_is_gone_is_told_at_once(tmp_path):
    found = written(tmp_path)
    sent = pickle.dumps(found)
    found.files[2].unlink()
    with pytest.raises(BadInput, match=r"2\.npy: can't be read on this machine"):
        pickle.loads(sent)
