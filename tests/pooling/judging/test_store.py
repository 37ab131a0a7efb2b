import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import psutil
import pytest

from pyrite.pooling.judging.folder import check_local, file_system
from pyrite.pooling.judging.store import FILE, KNOWN, TABLES, Event, Store, digest_of, read
from pyrite.ranking.errors import BadInput

SETTINGS = {"pool": "a", "grades": [0, 1]}


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path, SETTINGS, clock=iter(range(100)).__next__)


def judgement(document: str, grade: int = 1, request: str | None = None) -> Event:
    return Event("judge", "ada", "1", document, grade, request=request)


def test_events_come_back_as_they_were(store, tmp_path):
    events = store.append(
        Event("sign in", "ada"), Event("hand out", "ada", "1", "d1", by_method=True), judgement("d1", request="r")
    )
    assert [(event.id, event.at) for event in events] == [(1, 0), (2, 1), (3, 2)]
    assert store.events() == events
    assert store.request("r") == events[2]
    assert store.request("another") is None
    store.close()
    assert Store(tmp_path, SETTINGS).events() == events


def test_each_write_is_flushed_to_the_disk(store):
    pragmas = [store._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
    assert pragmas == ["wal", 2]  # 2 is FULL


def test_events_are_written_all_or_none(store):
    store.append(judgement("d1", request="r"))
    with pytest.raises(sqlite3.IntegrityError):
        store.append(judgement("d2"), judgement("d3", request="r"))
    assert [event.document for event in store.events()] == ["d1"]
    store.append(judgement("d4"))
    assert [event.document for event in store.events()] == ["d1", "d4"]


def test_judgements_that_were_withdrawn_are_left_out_and_kept(store, tmp_path):
    first, *_ = store.append(judgement("d1", 0), judgement("d2"))
    store.append(Event("withdraw", "ada", "1", "d1", withdraws=first.id), judgement("d1", 1))
    snapshot = read(tmp_path)  # while the store is open
    assert snapshot.judgements.select("document", "grade").rows() == [("d2", 1), ("d1", 1)]
    assert snapshot.settings == SETTINGS
    assert len(store.events()) == 4


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            {"pool": "b", "grades": [0, 1]},
            r"\(pool\); give runs, topics, depth, order, order_precision, groups, relevant_from and machine as then",
        ),
        ({"pool": "b"}, r"other options \(grades, pool\);"),
    ],
)
def test_a_folder_of_something_else_or_of_another_server_is_refused(store, tmp_path, settings, says):
    with pytest.raises(BadInput, match="another server is judging there"):
        Store(tmp_path, SETTINGS)
    store.append(judgement("d1"))
    store.close()
    with pytest.raises(BadInput, match=says):
        Store(tmp_path, settings)
    Store(tmp_path, SETTINGS).close()  # the refusal let go of the folder


@pytest.mark.parametrize("setting", TABLES)
def test_a_folder_grows_by_judgements_of_topics_in_which_nothing_was_judged(tmp_path, setting):
    def opened(*rows: tuple[str, str, int], pool: str = "b", grow: bool = True) -> Store:
        grades = pl.DataFrame(rows, KNOWN, orient="row")
        settings = {"pool": pool, setting: digest_of(grades)}
        return Store(tmp_path, settings, grow=grow, **{TABLES[setting]: grades})

    old, new = ("1", "d1", 1), ("2", "d1", 0)
    store = opened(old, pool="a")
    store.append(Event("judge", "ada", "3", "d2", 1))
    store.close()
    with pytest.raises(BadInput, match="other options"):
        opened(old, new, grow=False)
    for other in ([], [new], [("1", "d1", 0), new], [old, ("1", "d3", 1), new], [old, new, ("3", "d3", 1)]):
        with pytest.raises(BadInput, match=rf"made with other options \({setting}\); give the same as then"):
            opened(*other)
    store = opened(old, new)
    if setting == "qrels":
        assert store.known().rows() == [old, new]
    store.close()
    opened(old, new, grow=False).close()  # as the folder remembers now
    with pytest.raises(BadInput, match=rf"\({setting}\)"):
        opened(old)


def test_gold_that_an_older_version_did_not_store_can_not_be_added_to(tmp_path):
    old, new = (pl.DataFrame([(topic, "d1", 1) for topic in topics], KNOWN, orient="row") for topics in ("1", "12"))
    store = Store(tmp_path, {"gold": digest_of(old)})
    store.append(judgement("d1"))
    store.close()
    for gold in (None, new):
        settings = {} if gold is None else {"gold": digest_of(gold)}
        with pytest.raises(BadInput, match=r"other options \(gold\)"):
            Store(tmp_path, settings, grow=True, gold=gold)
    Store(tmp_path, {"gold": digest_of(old), "pool": "more"}, grow=True, gold=old).close()
    Store(tmp_path, {"gold": digest_of(new), "pool": "more"}, grow=True, gold=new).close()  # it is stored now


def test_a_commit_that_fails_after_it_was_written_is_found(tmp_path, monkeypatch):
    class Failing(sqlite3.Connection):
        broken = False

        def execute(self, sql: str, *given: object) -> sqlite3.Cursor:
            done = super().execute(sql, *given)
            if sql == "COMMIT" and Failing.broken:
                raise sqlite3.OperationalError("disk I/O error")
            return done

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *given, **options: connect(*given, **options, factory=Failing))
    store = Store(tmp_path, SETTINGS)
    store.append(judgement("d1"))
    Failing.broken = True
    with pytest.raises(sqlite3.OperationalError):
        store.append(judgement("d2"))
    Failing.broken = False
    store.reopen()
    assert [event.document for event in store.events(1)] == ["d2"]
    store.append(judgement("d3"))
    with pytest.raises(BadInput, match="another server"):  # it holds the folder as before
        Store(tmp_path, SETTINGS)


def test_corrections_stand_in_the_place_of_what_they_correct(store, tmp_path):
    first, _ = store.append(judgement("d1", 0), judgement("d2"))
    (third,) = store.append(Event("correct", "ada", "1", "d1", 1, withdraws=first.id, original=first.id, note="sorry"))
    assert read(tmp_path).judgements.select("document", "grade", "note").rows() == [("d1", 1, "sorry"), ("d2", 1, None)]
    store.append(Event("correct", "ada", "1", "d1", None, withdraws=third.id, original=first.id))
    assert read(tmp_path).judgements.select("document", "grade").rows() == [("d1", None), ("d2", 1)]
    with pytest.raises(sqlite3.IntegrityError):  # what was corrected can't be withdrawn as well
        store.append(Event("withdraw", "ada", "1", "d1", withdraws=first.id))


VERSION_0_1 = """
    CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);
    INSERT INTO settings VALUES ('pool', '"a"'), ('grades', '[0, 1]');
    CREATE TABLE known (
        topic TEXT NOT NULL, document TEXT NOT NULL, grade INTEGER NOT NULL, PRIMARY KEY (topic, document)
    );
    CREATE TABLE events (
        id INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, assessor TEXT NOT NULL, topic TEXT, document TEXT,
        grade INTEGER, by_method INTEGER NOT NULL, withdraws INTEGER UNIQUE REFERENCES events (id), request TEXT UNIQUE
    );
    INSERT INTO events VALUES (1, 5.0, 'judge', 'ada', '1', 'd1', 1, 0, NULL, 'r');
    CREATE VIEW judgements AS SELECT id, at, assessor, topic, document, grade FROM events WHERE kind = 'judge';
"""


@pytest.mark.parametrize("first", [read, lambda folder: Store(folder, SETTINGS).close()])
def test_a_folder_of_version_0_1_goes_on(tmp_path, first):
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        connection.executescript(VERSION_0_1)
    first(tmp_path)
    assert read(tmp_path).judgements.rows() == [(1, 5.0, "ada", "1", "d1", 1, None, None, 5.0)]
    store = Store(tmp_path, SETTINGS)
    store.append(Event("correct", "ada", "1", "d1", 0, withdraws=1, original=1, note="n"))
    assert read(tmp_path).judgements.select("grade", "note").rows() == [(0, "n")]


def test_folders_that_hold_no_judgements(tmp_path):
    with pytest.raises(BadInput, match="no judgements in it"):
        read(tmp_path)
    (tmp_path / FILE).write_text("this is no database, though it has its name " * 100)
    with pytest.raises(BadInput, match="can't be read"):
        read(tmp_path)
    with pytest.raises(BadInput, match="can't keep judgements there"):
        Store(tmp_path, SETTINGS)
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="can't keep judgements there"):
        Store(tmp_path / "file", SETTINGS)


WRITER = """
    import sys
    from pathlib import Path
    from pyrite.pooling.judging.store import Event, Store
    store = Store(Path(sys.argv[1]), {"pool": "a", "grades": [0, 1]})
    for turn in range(1_000_000):
        store.append(Event("judge", "ada", "1", f"d{turn}", turn % 2), Event("hand out", "ada", "1", f"d{turn + 1}"))
        print(turn, flush=True)
"""


@pytest.mark.by_day(1)
@pytest.mark.parametrize("after", [37, 1, 120])
def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path, after):
    root = str(Path(__file__).resolve().parents[3])
    writer = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), str(tmp_path)],
        stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": root},
    )  # fmt: skip
    acknowledged = [int(writer.stdout.readline()) for _ in range(after)]
    writer.send_signal(signal.SIGKILL)
    acknowledged += [int(line) for line in writer.stdout if line.endswith("\n")]
    writer.wait()
    judged = read(tmp_path).judgements
    assert judged["document"].to_list() == [f"d{turn}" for turn in range(len(judged))]
    assert len(judged) - len(acknowledged) in (0, 1)  # killed between the disk and the word
    events = Store(tmp_path, SETTINGS).events()  # the dead process holds the folder no longer
    assert len(events) == 2 * len(judged)


def mounts(monkeypatch: pytest.MonkeyPatch, *kinds: tuple[str, str]) -> None:
    there = [SimpleNamespace(mountpoint=place, fstype=kind) for place, kind in kinds]
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: there)


def test_the_nearest_mount_counts(monkeypatch):
    mounts(
        monkeypatch, ("/", "ext4"), ("/home", "nfs4"), ("/home/ada/disk", "ext4"), ("/mnt", "autofs"), ("/mnt", "cifs")
    )
    assert file_system(Path("/srv/x")) == "ext4"
    assert file_system(Path("/home/ada")) == "nfs4"
    assert file_system(Path("/homes")) == "ext4"
    assert file_system(Path("/home/ada/disk/x/y")) == "ext4"
    assert file_system(Path("/mnt/share")) == "cifs"  # mounted over the first
    check_local(Path("/home/ada/disk"))
    mounts(monkeypatch)
    assert file_system(Path("/srv")) == ""


def test_judgements_are_not_kept_on_a_network_file_system(tmp_path, monkeypatch):
    mounts(monkeypatch, ("/", "ext4"), (str(tmp_path), "NFS4"))
    with pytest.raises(BadInput, match=r"network file system \(nfs4\).*choose an out="):
        Store(tmp_path / "out", {})
    assert not list((tmp_path / "out").iterdir())
