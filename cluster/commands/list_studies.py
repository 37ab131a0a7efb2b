"""Runs `pyrite list`: shows the studies and other results in a folder."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from pyrite.analysis.reports.report import Table
from pyrite.cluster.executors.waiting import WAITS
from pyrite.cluster.output.event_log import FILE, EventLog
from pyrite.cluster.output.lock import is_held
from pyrite.cluster.output.manifest import CONFIG, read_config, verb_of
from pyrite.cluster.output.storage import Storage
from pyrite.ranking.errors import BadInput, refuse

DEPTH = 3
"""Levels of folders that are searched."""
BEGINS, ENDS = ("began", "resumed"), ("finished", "failed", "interrupted")
"""Events with which a command begins and ends."""


@dataclass(frozen=True)
class ListedStudy:
    """A folder of results."""

    path: str
    verb: str
    state: str
    done: int
    runs: int
    failed: int
    started: datetime | None
    collection: str


def run_verb(chosen: argparse.Namespace, console: Console) -> int:
    """Print a table of the folders, the newest first."""
    folder, *more = [*chosen.words, *chosen.overrides] or ["outputs"]
    refuse(list(map(repr, more)), "{} has no effect on a list", remedy="name one folder: pyrite list FOLDER")
    root = Path(folder)
    refuse(not root.is_dir(), "is no folder", root, "name the folder of your results: pyrite list FOLDER")
    listed = sorted(results_in(root), key=lambda row: row.started.timestamp() if row.started else 0.0, reverse=True)
    if not listed:
        console.print(f"{root} holds no results", markup=False)
        return 0
    rows = []
    for row in listed:
        runs = f"{row.done}/{row.runs}" if row.verb in ("study", "pool", "train") else ""
        runs += f", {row.failed} failed" if row.failed else ""
        started = row.started.astimezone().strftime("%Y-%m-%d %H:%M") if row.started else ""
        rows.append([os.path.relpath(row.path, root), row.verb, row.state, runs, started, row.collection])
    console.print(Table(["folder", "verb", "state", "runs", "started", "collection"], rows, words=6))
    return 0


def results_in(root: Path) -> Iterator[ListedStudy]:
    """Yield the folders of results below a folder, and those that can't be read."""
    folders = [root]
    for _ in range(DEPTH):
        inner: list[Path] = []
        for folder in folders:
            try:
                if (folder / CONFIG).is_file() or _begins(folder):
                    yield read_folder(folder)
                else:
                    found = [path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")]
                    inner += sorted(found)
            except PermissionError:
                yield _unread(folder, "no permission")
        folders = inner


def read_folder(folder: Path) -> ListedStudy:
    """Read the state of a folder of results."""
    storage = Storage(str(folder))
    events = EventLog.read(storage)
    if not (folder / CONFIG).exists():
        return ListedStudy(str(folder), str(events[-1].get("verb", "")), WAITS, 0, 0, 0, None, "")
    try:
        config = read_config(storage)
    except BadInput:
        return _unread(folder, "damaged")
    begun = [place for place, event in enumerate(events) if event["event"] in BEGINS]
    started = datetime.fromisoformat(events[begun[0]]["time"]) if begun else None
    last, since = (events[begun[-1]], events[begun[-1] :]) if begun else ({"runs": 0}, events)
    counts = Counter(event["event"] for event in since)
    state = _state_of_held(events) if is_held(storage) else next((end for end in ENDS if counts[end]), "stopped")
    done = int(last.get("done", 0)) + counts["run ended"]
    runs, failed = max(int(last.get("runs", 1)), done), counts["run failed"]
    return ListedStudy(str(folder), verb_of(config), state, done, runs, failed, started, _collections(config))


def _state_of_held(events: Sequence[Mapping[str, Any]]) -> str:
    """Return the state of a folder to which a command writes."""
    return WAITS if events[-1:] and events[-1]["event"] == WAITS else "running"


def _collections(config: Mapping[str, Any]) -> str:
    """Return the names of a folder's collections, or of the one in the facts of an older version."""
    if "collections" in config:
        return ", ".join(map(str, (config["collections"] or config.get("facts") or {}).values()))
    return str((config.get("facts") or {}).get("collection", ""))


def _begins(folder: Path) -> bool:
    """Return whether a command waits for a cluster before it begins, so that the folder has no configuration yet."""
    storage = Storage(str(folder))
    return (folder / FILE).is_file() and is_held(storage) and EventLog.exists(storage)


def _unread(folder: Path, state: str) -> ListedStudy:
    return ListedStudy(str(folder), "", state, 0, 0, 0, None, "")
