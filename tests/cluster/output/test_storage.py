import pickle
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from pyrite.cluster.output import tables
from pyrite.cluster.output.lock import output_lock
from pyrite.cluster.output.result_store import ResultStore
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.output.tables import RunRows, read_table, required_scan, scan_table, write_table
from pyrite.cluster.rollouts import checkpoints
from pyrite.ranking.errors import BadInput


@pytest.mark.parametrize("place", ["{}/out", "file://{}/out", "store://bucket/out"])
def test_writes_reads_renames_and_deletes_whole_files(place, store, tmp_path):
    storage = Storage(place.format(tmp_path))
    storage.tidy()
    assert (storage.read("a/b"), storage.names("a")) == (None, [])
    for content in (b"one", b"two"):
        storage.write("a/b", content)
    assert pickle.loads(pickle.dumps(storage)).read("a/b") == b"two"
    storage.write("c", b"three")
    for _ in range(2):
        storage.move("c", "d")
    assert (storage.read("c"), storage.read("d")) == (None, b"three")
    assert (storage.names("a"), storage.names()) == (["b"], ["d"])
    names = [*store.objects, *(str(path) for path in tmp_path.rglob("*") if path.is_file())]
    assert sorted(name.rpartition("/out/")[2] for name in names) == ["a/b", "d"]
    for _ in range(2):
        storage.delete("d")
    assert storage.names() == []


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


@pytest.mark.parametrize("place", ["link", "link/out", "link/a/b"])
def test_a_link_to_a_folder_that_does_not_exist_is_named(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("nowhere")
    said = rf"{place}.*: can't be written \(link is a link to nowhere, which does not exist\); create that folder, or "
    with pytest.raises(BadInput, match=said):
        Storage(place).write("x", b"1")
    with pytest.raises(BadInput, match=said), output_lock(Storage(place)):
        pass


def test_in_an_object_store_each_file_is_written_once(store):
    storage = Storage("store://bucket/out")
    storage.write("runs/a", b"one")
    for episode in (1, 2):
        checkpoints.save(ResultStore(storage, "trainings"), {"episode": episode})
    assert checkpoints.load(ResultStore(storage, "trainings")) == {"episode": 2}
    state = "bucket/out/state.safetensors"
    assert [name for name, _ in store.written] == ["bucket/out/runs/a", state, state]


def test_the_folder_of_a_new_name_is_kept_by_the_disk_too(tmp_path, monkeypatch):
    synced: list[str] = []
    monkeypatch.setattr(
        "pyrite.ranking.whole_file.sync", lambda path: synced.append(str(path) if Path(path).is_dir() else "file")
    )
    Storage(str(tmp_path)).write("runs/a", b"1")
    assert synced == ["file", f"{tmp_path}/runs"]


SCHEMA = pl.Schema({"run": pl.String(), "value": pl.Float64(), "other": pl.Float64()})


def rows(count: int = 7, asked: list[int] | None = None) -> RunRows:
    """Three rows a run; the second run and every one after lacks `other`."""

    def frames() -> Iterator[pl.DataFrame]:
        for number in range(count):
            if asked is not None:
                asked.append(number)
            frame = pl.DataFrame({"run": [f"run {number}"] * 3, "value": [number / 3, 0.1, float("nan")]})
            yield frame.with_columns(other=pl.lit(1.5)) if number == 0 else frame

    return RunRows(SCHEMA, frames)


def whole(made: RunRows) -> pl.DataFrame:
    return pl.concat([pl.DataFrame(schema=SCHEMA), *made.frames()], how="diagonal")


@pytest.mark.parametrize("place", ["{}/out", "store://bucket/out"])
@pytest.mark.parametrize("group", [1, 6, 1000])
@pytest.mark.usefixtures("store")
def test_a_table_by_run_is_written_and_read_as_it_was_made(place, group, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "GROUP", group)
    storage = Storage(place.format(tmp_path))
    write_table(storage, "queries", rows())
    found = scan_table(storage, "queries")
    assert found.collect().equals(whole(rows()))
    assert read_table(storage, "queries").equals(whole(rows()))
    assert storage.names() == ["queries.parquet"]
    batches = found.filter(pl.col("run") == "run 2").collect_batches(maintain_order=True, engine="streaming")
    assert pl.concat(batches).equals(whole(rows())[6:9])
    assert scan_table(storage, "none") is None


def test_rows_that_are_not_collected_are_those_that_are_made(monkeypatch):
    monkeypatch.setattr(tables, "GROUP", 3)
    asked: list[int] = []
    lazy = rows(asked=asked).lazy()
    assert asked == []
    assert lazy.collect().equals(whole(rows()))
    assert lazy.filter(pl.col("value") == 0.1).select("run").collect()["run"].n_unique() == 7
    assert lazy.head(4).collect().equals(whole(rows())[:4])
    assert RunRows(SCHEMA, list).lazy().collect().is_empty()


def test_a_table_that_was_not_made_whole_is_not_there(store, tmp_path, monkeypatch):
    def frames() -> Iterator[pl.DataFrame]:
        yield next(iter(rows().frames()))
        raise KeyboardInterrupt

    monkeypatch.setattr(tables, "GROUP", 1)
    for place in (str(tmp_path), "store://bucket/out"):
        with pytest.raises(KeyboardInterrupt):
            write_table(Storage(place), "queries", RunRows(SCHEMA, frames))
    assert list(tmp_path.iterdir()) == []
    assert store.objects == {}


def test_a_table_of_no_run_has_its_columns_and_a_damaged_one_is_one_line(tmp_path):
    storage = Storage(str(tmp_path))
    write_table(storage, "steps", RunRows(SCHEMA, list))
    assert required_scan(storage, "steps").collect().equals(pl.DataFrame(schema=SCHEMA))
    with pytest.raises(BadInput, match="no queries"):
        required_scan(storage, "queries")
    write_table(storage, "queries", rows())
    file = tmp_path / "queries.parquet"
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(BadInput, match="damaged"):
        scan_table(storage, "queries")


@pytest.mark.parametrize(("name", "matching"), [("res[1]", "res1"), ("lr=?", "lr=1"), ("a*", "ab")])
def test_a_folder_with_signs_of_patterns_is_that_folder_alone(tmp_path, name, matching):
    for place, value in ((name, 1), (matching, 2)):
        write_table(Storage(str(tmp_path / place)), "queries", pl.DataFrame({"value": [value]}))
    scanned = scan_table(Storage(str(tmp_path / name)), "queries")
    assert scanned is not None
    assert scanned.collect()["value"].to_list() == [1]
