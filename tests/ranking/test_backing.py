"""Files of a folder with another place behind it, and files that are replaced whole."""

import copy
import pickle
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pyrite.ranking.backing import BackedPath, NotWhole, at_hand, backed, fetched, latest, publish, where, withdraw
from pyrite.ranking.collections.arrow_files import mapped, write_whole
from pyrite.ranking.mapped import open_array, write_array
from pyrite.ranking.whole_file import replace_file
from tests.ranking.shelf import Shelf, on_machine


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """Of the backing; the process is machine `a`."""
    on_machine(tmp_path / "a", monkeypatch)
    Shelf.told.clear()
    return tmp_path / "behind"


def test_a_path_is_another_on_another_machine(place, tmp_path, monkeypatch):
    root = backed(Shelf(str(place)))
    made = [root / "x" / "y", (root / "x.z").with_suffix(".y"), (root / "a" / "b").parent, copy.deepcopy(root / "c")]
    assert [path.behind()[1] for path in made if isinstance(path, BackedPath)] == ["x/y", "x.y", "a", "c"]
    assert root.behind() == (Shelf(str(place)), "")
    sent = pickle.dumps((root, made))
    on_machine(tmp_path / "b", monkeypatch)
    there, arrived = pickle.loads(sent)
    assert there == tmp_path / "b" / "shelf"
    assert [str(path.relative_to(there)) for path in arrived] == ["x/y", "x.y", "a", "c"]
    assert where(arrived[0]) == "shelf:x/y"
    assert where(Path("x")) == "x"


def test_what_one_machine_writes_another_has(place, tmp_path, monkeypatch):
    root = backed(Shelf(str(place)))
    write_array(root / "deep" / "one.npy", np.arange(3))
    write_whole(root / "frame.arrow", {"word": pl.String()}, [pl.DataFrame({"word": ["a", "b"]})])
    assert Shelf.fetched() == []
    sent = pickle.dumps((open_array(root / "deep" / "one.npy"), root / "frame.arrow", root / "none"))
    assert len(sent) < 500
    on_machine(tmp_path / "b", monkeypatch)
    array, frame, none = pickle.loads(sent)
    assert Shelf.fetched() == ["deep/one.npy"]  # the rest when it is asked for
    assert array.tolist() == [0, 1, 2]
    assert mapped(frame)["word"].to_list() == ["a", "b"]
    assert Shelf.fetched() == ["frame.arrow"]
    assert mapped(frame)["word"].to_list() == ["a", "b"]
    assert Shelf.fetched() == []  # it is here
    assert not at_hand(none)
    with pytest.raises(NotWhole, match="shelf:none: does not exist"):
        fetched(none)
    withdraw(frame)
    assert not at_hand(frame)


def test_a_plain_path_is_of_this_machine_alone(place, tmp_path):
    file = tmp_path / "plain.npy"
    write_array(file, np.arange(3))
    publish(file)
    assert at_hand(file)
    assert latest(file) == file.read_bytes()
    withdraw(file)
    assert not at_hand(file)
    assert latest(file) is None
    assert fetched(file) == file
    assert Shelf.told == []
    root = backed(Shelf(str(place)))
    root.mkdir(parents=True)
    write_array(Path(str(root / "own.npy")), np.arange(3))
    assert Shelf.told == []


def test_the_latest_is_asked_for_anew(place):
    file = backed(Shelf(str(place)), "about.json")
    assert latest(file) is None
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("one")
    publish(file)
    (place / "about.json").write_text("two")
    assert latest(file) == b"two"
    assert file.read_text() == "one"
    assert [path.name for path in file.parent.iterdir()] == ["about.json"]


@pytest.mark.parametrize("name", ["x.npy", "x.arrow"])
def test_a_file_that_is_cut_short_is_named_and_forgotten(name, place):
    file = backed(Shelf(str(place)), name)
    read = mapped if name == "x.arrow" else open_array
    if name == "x.arrow":
        write_whole(file, {"word": pl.String()}, [pl.DataFrame({"word": ["a"]})])
    else:
        write_array(file, np.arange(100))
    content = file.read_bytes()
    file.unlink()
    (place / name).write_bytes(content[:-9])
    with pytest.raises(NotWhole, match=f"shelf:{name}: is cut short.*delete it there"):
        read(file)
    assert isinstance(pickle.loads(pickle.dumps(NotWhole("a", "b", "c"))), NotWhole)
    (place / name).write_bytes(content)
    assert len(read(file)) in (1, 100)  # nothing is left of what was not whole


def test_a_file_is_replaced_when_the_block_ends(tmp_path):
    file = tmp_path / "new" / "a.txt"
    for content in ("first", "second"):
        with replace_file(file) as temporary:
            temporary.write_text(content)
            assert not file.exists() or file.read_text() == "first"
        assert file.read_text() == content
    assert list(file.parent.iterdir()) == [file]


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("old")
    with pytest.raises(ValueError, match="half"):
        _interrupted(file)
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]
    with pytest.raises(FileNotFoundError), replace_file(file):
        pass  # nothing was written
    assert file.read_text() == "old"


def _interrupted(file: Path) -> None:
    with replace_file(file) as temporary:
        temporary.write_text("half")
        raise ValueError("half")
