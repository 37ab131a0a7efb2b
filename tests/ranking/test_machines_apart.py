"""Machines that share no disk: each fetches the pieces that it works on, and what comes out is what one machine has."""

import gzip
import json
import pickle
import re
import shutil
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
from pyrite.ranking.backing import BackedPath, NotWhole, backed
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
from tests.ranking.shelf import Shelf, on_machine
from tests.ranking.trained import equal


class Machines:
    """A collection of 300 documents, its cache behind each machine's own folder, and who fetched what.

    Args:
        tmp_path: of all machines.
        patch: sets which machine this process stands for.
    """

    def __init__(self, tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
        self.tmp_path, self.patch = tmp_path, patch
        self.source = write_beir(tmp_path / "made_up", documents=300, labels=False)
        patch.setattr(pieces, "PIECE", seventh_of(self.source))
        self.whole = self.opened("one")
        Shelf.told.clear()

    def on(self, name: str) -> BackedPath:
        """Go to a machine; its folder of the cache."""
        on_machine(self.tmp_path / name, self.patch)
        return backed(Shelf(str(self.tmp_path / "behind")))

    def opened(self, name: str) -> Collection:
        """The collection on a machine; `one` has it in one piece, and no backing."""
        if name == "one":
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(pieces, "PIECE", 1 << 20)
                return open_collection(Beir(self.source), self.tmp_path / name)
        return open_collection(Beir(self.source), self.on(name))

    def each_its_own(self, fetched: dict[int, set[str]]) -> Callable[[Callable[[int], None], int], None]:
        """Does each task on a machine of its own, which is told of by number; then back to machine `b`."""

        def run(task: Callable[[int], None], count: int) -> None:
            for number in range(count):
                sent = pickle.dumps(task)
                Shelf.fetched()
                self.on(f"worker{number}")
                pickle.loads(sent)(number)
                fetched.setdefault(number, set()).update(Shelf.fetched())
                self.on("b")

        return run


@pytest.fixture
def machines(tmp_path, monkeypatch) -> Machines:
    """Of which `a` has read the collection."""
    made = Machines(tmp_path, monkeypatch)
    assert len(made.opened("a").pieces) == 7
    Shelf.told.clear()
    return made


def documents_in(names: set[str] | list[str]) -> list[int]:
    """Numbers of the pieces of documents among files."""
    return sorted(int(found[1]) for name in names if (found := re.search(r"/documents-(\d+)\.arrow$", name)))


def test_pieces_are_fetched_when_they_are_needed(machines):
    shutil.rmtree(machines.source)  # machine b has never had it
    found = machines.opened("b")
    assert found.fingerprint == machines.whole.fingerprint
    assert found.size == 300
    assert found.queries.equals(machines.whole.queries)
    assert found.judgements.equals(machines.whole.judgements)
    assert documents_in(Shelf.fetched()) == []
    starts = np.cumsum([0, *found.rows])
    rows = np.array([starts[5] + 1, starts[2], starts[5], starts[3] - 1])
    expected = machines.whole.documents["text"].gather(rows.astype(np.uint32))
    assert found.gather("text", rows).to_list() == expected.to_list()
    assert documents_in(names := Shelf.fetched()) == [2, 5]
    assert not [name for name in names if "/ids-" in name]
    assert found.gather("id", np.zeros(0, np.int64)).to_list() == []
    changed = found.changed(judgements=found.judgements.head(1))
    assert (len(changed.judgements), len(found.judgements)) == (1, len(machines.whole.judgements))
    assert Shelf.fetched() == []
    ids = machines.whole.documents["id"].sample(20, seed=1)
    assert found.document_rows(ids).to_list() == machines.whole.document_rows(ids).to_list()
    assert documents_in(Shelf.fetched()) == []  # the table of ids alone
    assert found.documents.equals(machines.whole.documents)
    assert documents_in(Shelf.fetched()) == [0, 1, 3, 4, 6]
    assert machines.opened("b").documents.equals(machines.whole.documents)
    assert documents_in(Shelf.fetched()) == []


def test_each_machine_encodes_its_own_piece(machines):
    fetched: dict[int, set[str]] = {}
    there = machines.opened("b")
    Shelf.told.clear()
    folder = machines.on("b") / "parts" / "key"
    found, words = encode_in_pieces(ENCODER, there, folder, machines.each_its_own(fetched))
    assert {number: documents_in(names) for number, names in fetched.items()} == {n: [n] for n in range(7)}
    assert not list((machines.tmp_path / "b").rglob("documents-*.arrow"))
    expected, same = ENCODER.encode(machines.whole)
    assert words == same
    Shelf.fetched()
    starts = np.cumsum([0, *there.rows])
    rows = np.array([starts[5] + 1, starts[2], starts[5], starts[3] - 1])
    assert found.documents.take(rows).tokens.tolist() == expected.documents.take(rows).tokens.tolist()
    assert sorted(Path(name).name for name in Shelf.fetched()) == ["tokens-00002.npy", "tokens-00005.npy"]
    sent = pickle.dumps(found.documents)
    machines.on("c")
    arrived = pickle.loads(sent)
    Shelf.fetched()
    assert arrived.take(np.arange(starts[3], starts[4])).lengths.sum() > 0
    assert [Path(name).name for name in Shelf.fetched()] == ["tokens-00003.npy"]
    machines.on("b")
    assert arrays(found.documents) == arrays(expected.documents)
    assert found.document_key.tobytes() == expected.document_key.tobytes()
    behind = sorted(path.name for path in (machines.tmp_path / "behind" / "parts" / "key").iterdir())
    assert [name for name in behind if not name.startswith("counts-")] == [
        *(f"hashes-{n:05d}.arrow" for n in range(7)), "keys.npy", "labels.npy", "offsets.npy", "starts.npy",
        *(f"tokens-{n:05d}.npy" for n in range(7)), "vocabulary.arrow",
    ]  # fmt: skip


@pytest.mark.parametrize("many", [1, 1000])
def test_each_machine_counts_and_searches_its_own_piece(many, machines, monkeypatch):
    monkeypatch.setattr(bm25_pieces, "MANY", many)
    fetched: dict[int, set[str]] = {}
    index = PiecedBm25(machines.opened("b"), Bm25Options(), machines.each_its_own(fetched))
    assert {number: documents_in(names) for number, names in fetched.items()} == {n: [n] for n in range(7)}
    asked = np.arange(len(machines.whole.queries))
    assert equal(index.search(asked, 20), Bm25(machines.whole, Bm25Options()).search(asked, 20))
    assert not list((machines.tmp_path / "behind").rglob("found-*/*"))
    # A shard on yet another machine is told the folder and which pieces it has.
    sent = pickle.dumps(index.folder)
    machines.on("c")
    Shelf.told.clear()
    folder = pickle.loads(sent)
    bm25_pieces.search_pieces(folder, {3: index.ranges[3]}, index.queries, 5, np.zeros((len(asked), 0), np.int32), 1)
    names = Shelf.fetched()
    assert {Path(name).parent.name for name in names} == {"00003"}
    assert sorted(Path(name).name for name in names) == ["bounds.npy", "documents.npy", "offsets.npy", "weights.npy"]
    machines.on("c")
    Shelf.told.clear()
    again = PiecedBm25(machines.opened("c"), Bm25Options(), machines.each_its_own(fetched := {}))
    assert not fetched  # nothing is made again
    assert again.ranges == index.ranges


def test_half_a_collection_is_none(machines):
    behind = machines.tmp_path / "behind"
    (about,) = behind.glob("made_up-*/collection.json")
    kept = about.read_text()
    about.unlink()  # as while a machine publishes: all other files are there
    machines.source.rename(machines.tmp_path / "gone")
    with pytest.raises(BadInput, match="no such folder"):
        machines.opened("b")
    about.write_text(kept)
    (about.parent / "documents-00003.arrow").write_bytes(b"cut short")
    with pytest.raises(NotWhole, match=r"shelf:made_up-.*/documents-00003.arrow: is cut short"):
        _ = machines.opened("b").documents


def test_who_was_killed_while_publishing_publishes_again(tmp_path, monkeypatch):
    machines = Machines(tmp_path, monkeypatch)
    publish = Shelf.publish

    def killed(self: Shelf, file: Path, name: str) -> None:
        if "00004" in name:
            raise KeyboardInterrupt
        publish(self, file, name)

    monkeypatch.setattr(Shelf, "publish", killed)
    with pytest.raises(KeyboardInterrupt):
        machines.opened("a")
    monkeypatch.setattr(Shelf, "publish", publish)
    assert not list((tmp_path / "behind").rglob("collection.json"))
    machines.opened("a")
    told = [line.rpartition("/")[2] for line in Shelf.told if line.startswith("published made_up")]
    assert told[-1] == "collection.json"
    assert len(list((tmp_path / "behind").rglob("documents-*.arrow"))) == 7
    Shelf.told.clear()
    machines.opened("a")
    assert not [line for line in Shelf.told if line.startswith("published")]


def test_two_collections_of_one_path_are_told_apart(machines):
    """A machine with the files goes by them; one without takes what was read last."""
    first = machines.whole.fingerprint
    queries = gzip.decompress((machines.source / "queries.jsonl.gz").read_bytes()).decode().splitlines()
    queries[0] = json.dumps(json.loads(queries[0]) | {"text": "another"})
    with gzip.open(machines.source / "queries.jsonl.gz", "wt") as file:
        file.write("\n".join(queries))
    second = machines.opened("b").fingerprint
    assert first != second
    shutil.rmtree(machines.source)
    assert machines.opened("a").fingerprint == machines.opened("c").fingerprint == second


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
