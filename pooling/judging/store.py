"""Stores every event of judging in one SQLite file that survives a power cut."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import polars as pl

from pyrite.pooling.judging.copies import COPIES, NO_COPIES
from pyrite.pooling.judging.folder import check_local, make_private, private_file
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.links import refuse_links

FILE, LOCK = "judgements.sqlite", "server.lock"
KNOWN = {"topic": pl.String(), "document": pl.String(), "grade": pl.Int64()}
NO_JUDGEMENTS = pl.DataFrame(schema=KNOWN)
TABLES = {"qrels": "known", "gold": "gold"}
"""The tables of judgements that a folder is made with, by the settings that identify them."""
OF_A_POOL = "runs, topics, depth, order, order_precision, groups, relevant_from and machine"
"""The options on which the setting `pool` depends."""
JUDGEMENTS = {
    "id": pl.Int64(), "at": pl.Float64(), "assessor": pl.String(), "topic": pl.String(), "document": pl.String(),
    "grade": pl.Int64(), "note": pl.String(), "rationale": pl.String(), "graded_at": pl.Float64(),
}  # fmt: skip

Kind = Literal["sign in", "turn", "hand out", "judge", "correct", "skip", "withdraw", "hand back", "resolve", "gold"]

_TABLES = """
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS known (
    topic TEXT NOT NULL, document TEXT NOT NULL, grade INTEGER NOT NULL, PRIMARY KEY (topic, document)
);
CREATE TABLE IF NOT EXISTS gold (
    topic TEXT NOT NULL, document TEXT NOT NULL, grade INTEGER NOT NULL, PRIMARY KEY (topic, document)
);
CREATE TABLE IF NOT EXISTS copies (
    topic TEXT NOT NULL, document TEXT NOT NULL, first TEXT NOT NULL, PRIMARY KEY (topic, document)
);
CREATE TABLE IF NOT EXISTS events (
    id INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, assessor TEXT NOT NULL, topic TEXT, document TEXT,
    grade INTEGER, by_method INTEGER NOT NULL, withdraws INTEGER UNIQUE REFERENCES events (id), request TEXT UNIQUE
);
"""
_ADDED = {"note": "TEXT", "original": "INTEGER REFERENCES events (id)", "rationale": "TEXT", "planned": "INTEGER"}
"""Columns of events that folders of older versions lack."""
_VIEW = """
DROP VIEW IF EXISTS judgements;
CREATE VIEW judgements AS
    SELECT id, at, assessor, topic, document, grade, note, rationale, coalesce(original, id) AS original FROM events
    WHERE kind IN ('judge', 'correct') AND id NOT IN (SELECT withdraws FROM events WHERE withdraws IS NOT NULL);
"""

_JUDGEMENTS = f"""
WITH
    made AS (
        SELECT id, at, grade, coalesce(original, id) AS original FROM events WHERE kind IN ('judge', 'correct')
    ),
    refused AS (SELECT original, max(id) AS last FROM made WHERE grade IS NULL GROUP BY original),
    graded AS (
        SELECT original, at AS graded_at, min(made.id) FROM made LEFT JOIN refused USING (original)
        WHERE grade IS NOT NULL AND made.id > coalesce(last, 0) GROUP BY original
    )
SELECT {", ".join(JUDGEMENTS)} FROM judgements LEFT JOIN graded USING (original) ORDER BY original
"""  # with min, SQLite takes the other columns from the same row


@dataclass(frozen=True)
class Event:
    """One event of judging.

    Args:
        kind: an assessor signed in, turned to a topic, was handed a document, judged it, corrected that, skipped the
            document, withdrew a judgement or returned a document; or the owner decided which of two grades counts; or
            an assessor judged a gold document, a test.
        topic, document: ids, if the event is about them. A turn to no topic leaves the topic to the method.
        grade: the grade of a judgement; None if the assessor could not judge the document.
        by_method: whether the method chose the topic too, for a hand-out.
        withdraws: id of the judgement that is withdrawn, or that a correction replaces.
        request: the page's id of the request, by which a repeated request is recognised.
        original: for a correction, and for the withdrawal of a corrected judgement: id of the judgement that was
            corrected first.
        rationale: the passage of the document that decided, as the assessor marked it.
        planned: for a hand-out, the number of documents that were to be judged of the topic then; None in folders of
            older versions.
        id: its position in the order of events, set by `Store.append`.
        at: seconds since 1970, UTC; `Store.append` sets it if it is 0.
    """

    kind: Kind
    assessor: str
    topic: str | None = None
    document: str | None = None
    grade: int | None = None
    by_method: bool = False
    withdraws: int | None = None
    request: str | None = None
    note: str | None = None
    original: int | None = None
    rationale: str | None = None
    planned: int | None = None
    id: int = 0
    at: float = 0.0


_WRITTEN = [each.name for each in fields(Event) if each.name != "id"]
_INSERT = f"INSERT INTO events ({', '.join(_WRITTEN)}) VALUES ({', '.join('?' * len(_WRITTEN))})"
_SELECT = f"SELECT {', '.join(_WRITTEN)}, id FROM events"


class Store:
    """The events of one folder. One process at a time writes them; any may read.

    SQLite in WAL mode with `synchronous=FULL`: when `append` returns, the events are on the disk. Only the owner can
    read its files.

    Args:
        settings: identify the pool and the method. A folder with events under other settings is refused.
        known: topic, document, grade: judgements made before, stored in a folder without events. The setting `qrels` is
            their `digest_of`.
        clock: returns seconds since 1970.
        grow: whether the setting `pool` may differ from that of the folder, and replaces it; so may `known` and `gold`,
            by topics in which nothing was judged, before or here.
        copies: the documents that are judged with another one (`pyrite.pooling.judging.copies.COPIES`).
        gold: topic, document, grade: documents with known grades, stored as `known` is. The setting `gold` is their
            `digest_of`.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, Any],
        known: pl.DataFrame | None = None,
        clock: Callable[[], float] = time.time,
        grow: bool = False,
        copies: pl.DataFrame = NO_COPIES,
        gold: pl.DataFrame | None = None,
    ) -> None:
        self._clock, self._grow = clock, grow
        with ExitStack() as failed:  # release the folder unless everything succeeds
            try:
                refuse_links(folder)
                make_private(folder)
                check_local(folder)
                for name in (FILE, LOCK):  # the log next to a database has its mode
                    private_file(folder / name)
                self._lock = failed.enter_context(closing(_locked(folder)))
                self._path = folder / FILE
                self._connection = failed.enter_context(closing(_connected(self._path)))
                _make_tables(self._connection)
                self._set_up(folder, settings, {"known": _rows(known), "gold": _rows(gold)})
                self._set_copies(copies)
                _check_file(self._connection, self._path)
            except (OSError, sqlite3.Error) as error:
                if isinstance(error, sqlite3.Error) and ("malformed" in str(error) or "decode" in str(error)):
                    raise damaged(error, folder / FILE) from None
                raise BadInput(f"can't keep judgements there ({error})", folder, "choose another out=") from None
            failed.pop_all()

    def append(self, *events: Event) -> list[Event]:
        """Write events, all or none. Returns them with their `id` and `at`.

        If that fails (`sqlite3.Error`), nearly always none is written, but the disk may fail after all of them are:
        `reopen`, and read `events`.
        """
        stored = []
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            for event in events:
                timed = replace(event, at=event.at or self._clock())
                cursor = self._connection.execute(_INSERT, [getattr(timed, name) for name in _WRITTEN])
                stored.append(replace(timed, id=int(cursor.lastrowid or 0)))
            self._connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            raise
        return stored

    def reopen(self) -> None:
        """Connect to the file again, to see what is in it after a failed `append`."""
        with suppress(sqlite3.Error):
            self._connection.close()
        self._connection = _connected(self._path)

    def events(self, after: int = 0) -> list[Event]:
        """Return the events with a higher id, in order."""
        rows = self._connection.execute(f"{_SELECT} WHERE id > ? ORDER BY id", (after,)).fetchall()
        return [_event(row) for row in rows]

    def request(self, request: str) -> Event | None:
        """Return the event that a request led to, None if it is new."""
        row = self._connection.execute(f"{_SELECT} WHERE request = ?", (request,)).fetchone()
        return _event(row) if row else None

    def known(self) -> pl.DataFrame:
        """Return the judgements made before: topic, document, grade."""
        return _frame(self._connection, "SELECT topic, document, grade FROM known", KNOWN)

    def close(self) -> None:
        """Release the folder."""
        self._connection.close()
        self._lock.close()

    def _set_up(self, folder: Path, settings: Mapping[str, Any], given: Mapping[str, pl.DataFrame]) -> None:
        begun = self._connection.execute("SELECT 1 FROM events LIMIT 1").fetchone() is not None
        stored = dict(self._connection.execute("SELECT name, value FROM settings").fetchall())
        encoded = {name: json.dumps(value, sort_keys=True) for name, value in settings.items()}
        other = {name for name in stored.keys() | encoded.keys() if stored.get(name) != encoded.get(name)}
        if begun and self._grow:
            other -= {"pool", *(name for name, table in TABLES.items() if self._only_adds(stored, name, given[table]))}
        if begun and other:
            what = f"holds judgements made with other options ({', '.join(sorted(other))})"
            if other == {"pool"}:
                same = f"give {OF_A_POOL} as then, or continue with others by --resume FOLDER"
            else:
                same = "give the same as then, or choose another out="
            raise BadInput(what, folder, same)
        if stored == encoded:
            return
        self._connection.execute("BEGIN IMMEDIATE")
        if not begun:  # settings without an event bind nothing: that start may have been refused for its options
            self._connection.execute("DELETE FROM settings")
        for table, rows in given.items():
            self._connection.execute(f"DELETE FROM {table}")
            self._connection.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", rows.iter_rows())
        self._connection.executemany("INSERT OR REPLACE INTO settings VALUES (?, ?)", encoded.items())
        self._connection.execute("COMMIT")

    def _only_adds(self, stored: Mapping[str, str], setting: str, given: pl.DataFrame) -> bool:
        """Return whether judgements are those that the folder was made with, and others only of topics that had none,
        in which no document was shown.
        """
        before = _frame(self._connection, f"SELECT * FROM {TABLES[setting]} ORDER BY topic, document", KNOWN)
        if stored.get(setting, '""') not in ('""', json.dumps(digest_of(before))):
            return False  # older versions did not store gold
        shown = self._connection.execute("SELECT DISTINCT topic FROM events WHERE document IS NOT NULL").fetchall()
        had = [*before["topic"], *(topic for (topic,) in shown)]
        return given.filter(pl.col("topic").is_in(had)).equals(before)

    def _set_copies(self, copies: pl.DataFrame) -> None:
        if _copies(self._connection).equals(copies := copies.sort("topic", "document")):
            return
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute("DELETE FROM copies")
        self._connection.executemany("INSERT INTO copies VALUES (?, ?, ?)", copies.iter_rows())
        self._connection.execute("COMMIT")


@dataclass(frozen=True)
class Snapshot:
    """The judgements of a folder at one moment.

    Args:
        settings: see `Store`.
        known: topic, document, grade: judgements made before.
        judgements: id, at, assessor, topic, document, grade, note, rationale, graded_at: those that were not withdrawn,
            in the order in which the documents were first judged. The grade is null if the assessor could not judge.
            graded_at is when the assessor first gave a grade, unless they took that back for "can't judge" since.
        resolved: topic, document, grade: the owner's decisions where assessors differ, the latest for each.
        copies: topic, document, first: the documents that are judged with another one, as their text is the same.
    """

    settings: dict[str, Any]
    known: pl.DataFrame
    judgements: pl.DataFrame
    resolved: pl.DataFrame
    copies: pl.DataFrame


def read(folder: Path) -> Snapshot:
    """Read a folder, whether or not a server is writing to it."""
    refuse(not (folder / FILE).is_file(), "no judgements in it", folder, "give the out= of `pyrite judge`")
    try:
        with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as connection:
            if not _has_columns(connection):
                _make_tables(connection)
            connection.execute("BEGIN")  # one state of the file for all queries
            rows = connection.execute("SELECT name, value FROM settings").fetchall()
            return Snapshot(
                {name: json.loads(value) for name, value in rows},
                _frame(connection, "SELECT topic, document, grade FROM known", KNOWN),
                _frame(connection, _JUDGEMENTS, JUDGEMENTS),
                _frame(
                    connection, "SELECT topic, document, grade FROM events WHERE kind = 'resolve' ORDER BY id", KNOWN
                ).unique(["topic", "document"], keep="last", maintain_order=True),
                _copies(connection),
            )
    except (sqlite3.Error, pl.exceptions.PolarsError, TypeError, ValueError) as error:  # a value of another type
        raise BadInput(f"can't be read ({error})", folder / FILE) from None


def events_of(folder: Path) -> list[Event]:
    """Return the events of a folder, whether or not a server is writing to it."""
    try:
        with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as connection:
            return [_event(row) for row in connection.execute(f"{_SELECT} ORDER BY id").fetchall()]
    except sqlite3.Error as error:
        raise BadInput(f"can't be read ({error})", folder / FILE) from None


def digest_of(grades: pl.DataFrame) -> str:
    """Return a digest of judgements in the order of topic and document."""
    return hashlib.sha256(grades.write_csv().encode()).hexdigest()[:16]


def _rows(grades: pl.DataFrame | None) -> pl.DataFrame:
    if grades is None:
        return NO_JUDGEMENTS
    return grades.select(list(KNOWN)).cast(pl.Schema(KNOWN)).sort("topic", "document")


def damaged(fault: object, path: Path) -> BadInput:
    """Return the error for a file that can't be read whole."""
    recover = f"sqlite3 {path.name} .recover | sqlite3 recovered.sqlite"
    return BadInput(f"is damaged ({fault})", path, f"put a copy of it back, or save what can be read: {recover}")


def _check_file(connection: sqlite3.Connection, path: Path) -> None:
    (found,), *_ = connection.execute("PRAGMA quick_check").fetchall()
    if found != "ok":
        raise damaged(" ".join(found.split())[:200], path)


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "fullfsync = ON"):  # the last is for macOS
        connection.execute(f"PRAGMA {pragma}")
    return connection


def _make_tables(connection: sqlite3.Connection) -> None:
    """Create what does not exist: everything in a new file, some columns in a file of an older version."""
    connection.execute("BEGIN IMMEDIATE")
    for statement in _TABLES.split(";\n"):
        connection.execute(statement)
    if not _has_columns(connection):
        existing = {row[1] for row in connection.execute("PRAGMA table_info(events)")}
        for name in _ADDED.keys() - existing:
            connection.execute(f"ALTER TABLE events ADD COLUMN {name} {_ADDED[name]}")
        for statement in _VIEW.split(";\n"):
            connection.execute(statement)
    connection.execute("COMMIT")


def _has_columns(connection: sqlite3.Connection) -> bool:
    """Return whether the file has all that this version writes."""
    there = {row[1] for name in ("judgements", "copies") for row in connection.execute(f"PRAGMA table_info({name})")}
    return {*_ADDED, "first"} <= there


def _copies(connection: sqlite3.Connection) -> pl.DataFrame:
    return _frame(connection, "SELECT topic, document, first FROM copies ORDER BY topic, document", COPIES)


def _locked(folder: Path) -> sqlite3.Connection:
    """Take a lock that ends with the process, however that ends, on every system that has SQLite."""
    lock = sqlite3.connect(folder / LOCK, isolation_level=None, timeout=0, check_same_thread=False)
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        lock.close()
        if "locked" not in str(error):
            raise
        raise BadInput("another server is judging there", folder, "open its page, or end it first") from None
    return lock


def _frame(connection: sqlite3.Connection, query: str, schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    return pl.DataFrame(connection.execute(query).fetchall(), dict(schema), orient="row")


def _event(row: tuple[Any, ...]) -> Event:
    event = Event(**dict(zip([*_WRITTEN, "id"], row, strict=True)))
    return replace(event, by_method=bool(event.by_method))
