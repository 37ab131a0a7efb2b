import pickle
from pathlib import Path

import pytest

from cluster.output.result_store import ResultStore
from cluster.output.storage import Storage
from cluster.rollouts import checkpoints
from ranking.errors import BadInput
from tests.cluster.output.object_store import object_store


def test_writes_whole_files_and_reads_them(tmp_path):
    storage = Storage(str(tmp_path / "out"))
    assert storage.read("a/b.txt") is None
    assert storage.names("a") == []
    storage.write("a/b.txt", b"one")
    storage.write("a/b.txt", b"two")
    assert storage.read("a/b.txt") == b"two"
    assert storage.names("a") == ["b.txt"]
    assert [path.name for path in (tmp_path / "out" / "a").iterdir()] == ["b.txt"]
    storage.delete("a/b.txt")
    storage.delete("a/b.txt")
    assert storage.names("a") == []
    uri = Storage(f"file://{tmp_path}/out")
    uri.write("x", b"1")
    assert (tmp_path / "out" / "x").read_bytes() == b"1"
    assert pickle.loads(pickle.dumps(uri)).read("x") == b"1"


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_what_the_killed_were_writing_is_tidied_away(scheme, tmp_path):
    storage = Storage(f"{scheme}{tmp_path}/out")
    storage.tidy()
    storage.write("runs/a.parquet", b"1")
    for name in ("runs/a.parquet.0123abcd.part", "b.89ef0123.part", "mine.part"):
        (tmp_path / "out" / name).write_bytes(b"")
    storage.tidy()
    left = sorted(path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.*"))
    assert left == ["mine.part", "runs/a.parquet"]


def test_a_relative_place_stays_where_it_was_and_what_cannot_be_written_is_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    storage = Storage("out")
    copy = pickle.loads(pickle.dumps(storage))
    monkeypatch.chdir("/")
    copy.write("x", b"1")
    assert (tmp_path / "out" / "x").is_file()
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="out="):
        Storage(str(tmp_path / "file")).write("x", b"1")
    with pytest.raises(BadInput):
        Storage("nosuch://place")


def test_an_object_store_needs_no_renaming(monkeypatch):
    with object_store(monkeypatch) as store:
        storage = Storage("store://bucket/out")
        storage.tidy()
        storage.write("runs/a", b"one")
        storage.write("runs/a", b"two")
        storage.write("b", b"three")
        assert store.written == [("bucket/out/runs/a", 3), ("bucket/out/runs/a", 3), ("bucket/out/b", 5)]
        assert storage.read("runs/a") == b"two"
        assert storage.read("runs/c") is None
        assert (storage.names(), storage.names("runs")) == (["b"], ["a"])
        storage.move("b", "c")
        storage.move("b", "c")
        assert storage.read("c") == b"three"
        assert storage.read("b") is None
        storage.delete("c")
        storage.delete("c")
        for episode in (1, 2):
            checkpoints.save(ResultStore(storage, "trainings"), {"episode": episode})
        assert checkpoints.load(ResultStore(storage, "trainings")) == {"episode": 2}
        assert [name for name, _ in store.written[-2:]] == ["bucket/out/state.safetensors"] * 2


def test_the_folder_of_a_new_name_is_kept_by_the_disk_too(tmp_path, monkeypatch):
    synced: list[str] = []
    monkeypatch.setattr(
        "ranking.whole_file.sync", lambda path: synced.append(str(path) if Path(path).is_dir() else "file")
    )
    Storage(str(tmp_path)).write("runs/a", b"1")
    assert synced == ["file", f"{tmp_path}/runs"]
