"""Exports are what their names say, and are read again; a backup is whole while judgements are stored."""

import gzip
import json
import lzma
import sqlite3
import threading
from pathlib import Path

import polars as pl
import pytest

from pyrite.pooling.judging import store as stores
from pyrite.pooling.judging.backup import back_up
from pyrite.pooling.judging.export import table, write_qrels
from pyrite.pooling.judging.export_files import write
from pyrite.pooling.judging.store import Event, Store, read
from pyrite.ranking.errors import BadInput
from pyrite.ranking.trec_files import read_qrels

GRADES = [("2", "=d1", 0), ("10", "d2", 2), ("10", "dé", 1)]
NAMES = ("q", "q.txt", "q.qrels", "q.2024", "q.json", "q.jsonl", "q.tsv", "q.parquet", "q.txt.gz", "q.json.xz", "q.gz")


@pytest.fixture
def folder(tmp_path) -> Path:
    store = Store(tmp_path / "judged", {"pool": "a"})
    store.append(*(Event("judge", "ada", *row, note="two\nlines") for row in GRADES))
    store.append(Event("judge", "ada", "2", "d7", None))
    store.close()
    return tmp_path / "judged"


@pytest.mark.parametrize("name", NAMES)
def test_judgements_are_written_as_their_name_says_and_read_again(folder, tmp_path, name):
    path = tmp_path / name
    write_qrels(read(folder), "highest", path)
    assert sorted(read_qrels(path).rows()) == sorted(GRADES)
    content = path.read_bytes()
    if name.endswith((".gz", ".xz")):
        content = (gzip if name.endswith("gz") else lzma).decompress(content)
    if ".jsonl" in name:
        assert json.loads(content.splitlines()[0]) == {"topic": "2", "document": "=d1", "grade": 0}
    elif ".json" in name:
        assert json.loads(content) == {"2": {"=d1": 0}, "10": {"d2": 2, "dé": 1}}
    elif "parquet" in name:
        assert pl.read_parquet(path).columns == ["topic", "document", "grade"]
    else:
        first = "topic\tdocument\tgrade" if "tsv" in name else "2 0 =d1 0"
        assert content.decode().splitlines()[0] == first


@pytest.mark.parametrize("name", ["j.csv", "j.CSV", "j.csv.gz"])
def test_the_table_of_all_judgements_is_read_again(folder, tmp_path, name):
    write(tmp_path / name, table(read(folder)))
    assert sorted(read_qrels(tmp_path / name).rows()) == sorted(GRADES)


@pytest.mark.parametrize("name", ["q.xlsx", "q.zip", "q.xml.gz", "q.db"])
def test_other_forms_are_refused_with_those_there_are(folder, tmp_path, name):
    with pytest.raises(
        BadInput, match=r"judgements are not written as \.\w+; name it \.txt .*\.json.*\.csv for a table"
    ):
        write_qrels(read(folder), "highest", tmp_path / name)
    assert not (tmp_path / name).exists()


def test_a_backup_is_whole_while_judgements_are_stored(folder, tmp_path):
    store = Store(folder, {"pool": "a"})
    stop = threading.Event()

    def judge() -> None:
        number = 0
        while not stop.is_set():
            store.append(Event("judge", "ada", "2", f"e{number}", 1))
            number += 1

    thread = threading.Thread(target=judge)
    thread.start()
    try:
        copies = [tmp_path / f"copy{number}" for number in range(3)]
        counts = [back_up(folder, copy) for copy in copies]
    finally:
        stop.set()
        thread.join()
        store.close()
    assert counts == sorted(counts)
    for copy, count in zip(copies, counts, strict=True):
        assert copy.stat().st_mode & 0o777 == 0o600
        connection = sqlite3.connect(copy)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("SELECT count(*) FROM events").fetchone() == (count,)
        connection.close()
    (tmp_path / "again").mkdir()
    copies[-1].rename(tmp_path / "again" / stores.FILE)
    assert len(read(tmp_path / "again").judgements) == counts[-1]


def test_a_backup_replaces_nothing(folder, tmp_path):
    back_up(folder, tmp_path / "copy")
    with pytest.raises(BadInput, match="copy: already exists"):
        back_up(folder, tmp_path / "copy")
    with pytest.raises(BadInput, match="no judgements in it"):
        back_up(tmp_path, tmp_path / "other")
    with pytest.raises(BadInput, match="can't be written"):
        back_up(folder, tmp_path / "nowhere" / "copy")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["copy", "judged"]
