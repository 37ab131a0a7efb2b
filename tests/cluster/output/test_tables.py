"""Tests of tables whose rows pass through in pieces: what is read is what was made, in order, and no more of it."""

from collections.abc import Iterator

import polars as pl
import pytest

from cluster.output import tables
from cluster.output.storage import Storage
from cluster.output.tables import RunRows, batches, read_table, required_scan, scan_table, write_table
from ranking.errors import BadInput
from tests.cluster.output.object_store import object_store

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


@pytest.mark.parametrize("place", ["local", "store"])
@pytest.mark.parametrize("group", [1, 6, 1000])
def test_a_table_by_run_is_written_and_read_as_it_was_made(place, group, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "GROUP", group)
    with object_store(monkeypatch):
        storage = Storage(str(tmp_path / "out") if place == "local" else "store://bucket/out")
        write_table(storage, "queries", rows())
        found = scan_table(storage, "queries")
        assert found.collect().equals(whole(rows()))
        read = read_table(storage, "queries")
        assert read.equals(whole(rows()))
        assert storage.names() == ["queries.parquet"]
        assert pl.concat(batches(found.filter(pl.col("run") == "run 2"))).equals(whole(rows())[6:9])
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


def test_a_table_that_was_not_made_whole_is_not_there(tmp_path, monkeypatch):
    def frames() -> Iterator[pl.DataFrame]:
        yield next(iter(rows().frames()))
        raise KeyboardInterrupt

    monkeypatch.setattr(tables, "GROUP", 1)
    with object_store(monkeypatch) as store:
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
