"""Copies the judgements of a folder while they are served."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from pyrite.pooling.judging.store import FILE
from pyrite.ranking.errors import BadInput, refuse


def back_up(folder: Path, copy: Path) -> int:
    """Write a whole copy of a folder's judgements into one file, by SQLite's own means; return the number of events.

    The copy has all that was stored when it began, also while a server writes. Named `judgements.sqlite` in a folder
    with the copied `overrides.json`, it is continued as that folder.

    Raises:
        BadInput: if there are no judgements, the file exists, or it can't be written.
    """
    source = folder / FILE
    refuse(not source.is_file(), "no judgements in it", folder, "give the out= of `pyrite judge`")
    refuse(copy.exists(), "already exists", copy, "name another file, or move it away")
    unfinished = copy.with_name(f".{copy.name}.{os.getpid()}")
    try:
        unfinished.touch(mode=0o600)
        with closing(sqlite3.connect(source)) as stored, closing(sqlite3.connect(unfinished)) as target:
            stored.backup(target)
            target.execute("PRAGMA journal_mode = DELETE")  # one file, without a log next to it
            (count,) = target.execute("SELECT count(*) FROM events").fetchone()
        with open(unfinished, "rb") as written:
            os.fsync(written.fileno())
        unfinished.rename(copy)
    except (OSError, sqlite3.Error) as error:
        raise BadInput(f"can't be written ({error})", copy) from None
    finally:
        unfinished.unlink(missing_ok=True)
    return int(count)
