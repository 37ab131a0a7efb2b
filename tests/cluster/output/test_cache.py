"""Where what is made once is kept."""

import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pyrite.cluster.output.cache import cache_of, machine_folder
from pyrite.cluster.output.storage import Storage
from pyrite.ranking.backing import BackedPath, at_hand, publish
from pyrite.ranking.collections.cache import default_cache
from pyrite.ranking.errors import BadInput


def test_the_cache_is_a_folder_or_a_uri_behind_one_of_each_machine(tmp_path, monkeypatch):
    assert cache_of({"cache": "/there"}) == Path("/there")
    assert cache_of({"cache": None}) == default_cache()
    assert not isinstance(cache_of({"cache": "/there"}), BackedPath)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a"))
    config = {"cache": f"file://{tmp_path}/shared/"}
    file = cache_of(config) / "parts" / "x"
    assert file.is_relative_to(tmp_path / "a" / "pyrite" / "remote")
    assert cache_of(config) == cache_of({"cache": f"file://{tmp_path}/shared"}) != cache_of({"cache": "file:///other"})
    file.parent.mkdir(parents=True)
    file.write_bytes(b"made")
    publish(file)
    assert (tmp_path / "shared" / "parts" / "x").read_bytes() == b"made"
    sent = pickle.dumps(file)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "b"))
    arrived = pickle.loads(sent)  # on another machine, where the same file has another path
    assert arrived.is_relative_to(tmp_path / "b")
    assert at_hand(arrived)
    assert arrived.read_bytes() == b"made"
    assert not at_hand(arrived.with_name("y"))
    # What a machine keeps for itself is neither.
    own = machine_folder(config) / "parts" / "y"
    assert own.is_relative_to(tmp_path / "b")
    assert not isinstance(own, BackedPath)


def test_an_object_store_is_streamed_to_and_from(store, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = cache_of({"cache": "store://bucket/cache"}) / "x"
    file.parent.mkdir(parents=True)
    file.write_bytes(bytes(3 << 20))
    publish(file)
    assert store.written == [("bucket/cache/x", 3 << 20)]
    file.unlink()
    assert at_hand(file)
    assert file.read_bytes() == bytes(3 << 20)
    assert [each.name for each in file.parent.iterdir()] == ["x"]


def test_what_can_not_be_reached_read_or_written_or_arrives_cut_short_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a"))
    with pytest.raises(BadInput, match="nosuch://place: is no folder"):
        at_hand(cache_of({"cache": "nosuch://place"}) / "x")
    (tmp_path / "file").write_text("")
    blocked = cache_of({"cache": f"file://{tmp_path}/file"}) / "x"  # a file where a folder should be
    blocked.parent.mkdir(parents=True)
    blocked.write_text("made")
    with pytest.raises(BadInput, match=r"can't be written .* choose another cache="):
        publish(blocked)
    blocked.unlink()
    with pytest.raises(BadInput, match=r"can't be read .* check cache="):
        at_hand(blocked)
    Storage(str(tmp_path / "shared")).write("x", bytes(1000))
    file = cache_of({"cache": f"file://{tmp_path}/shared"}) / "x"
    with monkeypatch.context() as patch:
        patch.setattr(
            "pyrite.cluster.output.storage.shutil.copyfileobj", lambda source, copy, size: copy.write(bytes(10))
        )
        with pytest.raises(BadInput, match=r"/x: can't be read \(10 of 1,000 bytes arrived\); check cache="):
            at_hand(file)
    assert list(file.parent.iterdir()) == []
    assert at_hand(file)


def test_many_who_fetch_at_once_all_have_it_whole(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a"))
    content = os.urandom(1 << 20)
    Storage(str(tmp_path / "shared")).write("x", content)
    file = cache_of({"cache": f"file://{tmp_path}/shared"}) / "x"
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda number: at_hand(file) and file.read_bytes() == content, range(8)))
    assert found == [True] * 8
    assert [each.name for each in file.parent.iterdir()] == ["x"]
