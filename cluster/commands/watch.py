"""Runs `pyrite watch`: shows the live table of a command that runs elsewhere, from the log in its folder."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.markup import escape

from pyrite.cluster.output.event_log import EventLog
from pyrite.cluster.output.lock import is_held
from pyrite.cluster.output.manifest import CONFIG, read_config, resume_command, verb_of
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.output.terminal import print_lines
from pyrite.cluster.telemetry.live_table import LiveTable
from pyrite.ranking.errors import BadInput

EVERY = 1.0
"""Seconds between two reads of the log."""
UNITS = {"study": "epoch", "train": "epoch", "pool": "seed", "learn": "episode"}
"""Unit of a run's steps, by verb; the runs of other verbs have no steps."""
NOUNS = {"mine": "shards", "fork": "forks"}
"""The runs of a verb, in the plural, if they are not called runs."""
ENDS = ("finished", "failed", "interrupted")


class Replay:
    """Builds the live table from the events of a log."""

    def __init__(self, console: Console, verb: str, measure: str) -> None:
        self.table = LiveTable(console, 0, 0, measure, UNITS.get(verb, ""), NOUNS.get(verb, "runs"))
        self.end: str | None = None
        self._began = time.time()
        self._seen = 0

    def append(self, events: list[dict[str, Any]]) -> bool:
        """Apply the new events of a log."""
        new, self._seen = events[self._seen :], len(events)
        for event in new:
            self._apply(event)
        return bool(new)

    def _apply(self, event: Mapping[str, Any]) -> None:
        table, what, run = self.table, event["event"], event.get("run", "")
        if what in ("began", "resumed"):
            self.end = None
            table.total, table.done = int(event.get("runs", 1)), int(event.get("done", 0))
            table.before, table.failed, table.stopped = table.done, 0, 0
            table.running.clear()
            self._began = datetime.fromisoformat(event["time"]).timestamp()
            table.started, table.first_run = _as_monotonic(self._began), None
        elif what == "run started":
            if table.first_run is None:  # not the moment at which it is read
                table.first_run = _as_monotonic(datetime.fromisoformat(event["time"]).timestamp())
            table.start(run)
        elif what == "run reached":
            numbers = event.get("numbers", {})
            value = numbers.get("validation", numbers.get("area", float("nan")))
            table.progress(run, {"epoch": event["step"], "max_epochs": 0, "validation": value})
        elif what == "run lost":
            table.retried += 1
        elif what == "run failed":
            table.end(run, status="failed")
        elif what == "run stopped":
            table.end(run, status="stopped")
        elif what == "run ended":
            table.end(run, event.get("best"))
        elif what in ENDS:
            self.end = what
            table.started = time.monotonic() - max(datetime.fromisoformat(event["time"]).timestamp() - self._began, 0.0)


def _as_monotonic(timestamp: float) -> float:
    """Return a time of the log on this process's clock of durations."""
    return time.monotonic() - max(time.time() - timestamp, 0.0)


def run_verb(chosen: argparse.Namespace, console: Console, every: float = EVERY) -> int:
    """Show the progress of a command until it ends; return 0 if it finished, and 1 if it failed or was interrupted."""
    storage = Storage(chosen.out)
    if storage.read(CONFIG) is None:
        remedy = "name the folder of a command; one that was just submitted writes it once its data is prepared"
        raise BadInput(f"there is no {CONFIG} yet", chosen.out, remedy)
    verb = verb_of(read_config(storage))
    replay = Replay(console, verb, "validation" if verb != "pool" else "area")
    table, printed = replay.table, -1
    with table:
        while True:
            alive = is_held(storage)  # checked before the log is read, so that no event is missed
            changed = replay.append(EventLog.read(storage))
            if not console.is_terminal and changed and table.done != printed:
                printed = table.done
                console.print(f"{table.done}/{table.total} {table.noun}, {table.outlook()}", markup=False)
            if not alive or replay.end not in (None, "finished"):  # tables and report follow the last run
                break
            time.sleep(every)
    if replay.end == "finished":
        has_report = storage.read("report.html") is not None
        where = f"report: {storage.shown('report.html')}" if has_report else f"results: {storage.shown()}"
        console.print(f"finished; {escape(where)}", soft_wrap=True)
        return 0
    print_lines(console, f"{replay.end or 'its process has ended'}. To continue: {resume_command(verb, chosen.out)}")
    return 1
