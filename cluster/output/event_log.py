"""Logs the events of an output folder in `log.jsonl`, one line per event."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from pydantic_core import to_json

from pyrite.cluster.config.secrets import concealed_in
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.output.throttle import Throttle
from pyrite.ranking.errors import BadInput

FILE = "log.jsonl"
SEGMENTS = "log"
"""Folder of events that are not in the file yet, behind a URI."""


class EventLog:
    """Logs events. One process at a time may log in a folder.

    On a local path each event is one write to the end of the file, so a process that is killed has logged everything.
    A file behind a URI can't be appended to: the latest events are kept in memory and written regularly, as separate
    files in `log/`, which become one file when the command ends. A log that can't be written ends no study; the study's
    other files report the reason.
    """

    def __init__(self, storage: Storage, every: float = 30.0) -> None:
        self.storage = storage
        self._throttle, self._latest, self._segments = Throttle(every), b"", 0

    def emit(self, event: str, **facts: Any) -> None:
        """Log an event in a few words, such as `run ended`, with facts that JSON can hold.

        None is left out; NaN and infinity become null.
        """
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        known = {key: value for key, value in facts.items() if value is not None}
        line = to_json({"time": now, "event": event, **concealed_in(known)}, inf_nan_mode="null") + b"\n"
        if self.storage.local:
            self._append(line)
            return
        self._latest += line
        if self._throttle.due():
            self.flush()

    def flush(self) -> None:
        """Write the events in memory; a write that fails is repeated the next time."""
        if self._latest:
            time = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")  # so that names are in the order of events
            with suppress(BadInput):
                self.storage.write(f"{SEGMENTS}/{time}-{os.getpid()}-{self._segments:06}.jsonl", self._latest)
                self._latest, self._segments = b"", self._segments + 1

    def close(self) -> None:
        """Join all segments into one file."""
        self.flush()
        names = _segments(self.storage)
        if not names:
            return
        with suppress(BadInput):
            self.storage.write(FILE, b"".join(line + b"\n" for line in _lines(self.storage)))
            for name in names:
                self.storage.delete(f"{SEGMENTS}/{name}")

    @contextmanager
    def session(self, verb: str, resumed: bool, **facts: Any) -> Iterator[None]:
        """Log that a command began or resumed, and how it ended."""
        self.emit("resumed" if resumed else "began", verb=verb, process=os.getpid(), **facts)
        try:
            yield
        except KeyboardInterrupt:
            self.emit("interrupted")
            raise
        except BaseException as error:
            self.emit("failed", reason=reason(error))
            raise
        else:
            self.emit("finished")
        finally:
            self.close()

    @staticmethod
    def read(storage: Storage) -> list[dict[str, Any]]:
        """Return the events of a folder in order, without lines that are cut short."""
        events = []
        for line in _lines(storage):
            with suppress(ValueError):
                event = json.loads(line)
                events += [event] if isinstance(event, dict) and "event" in event else []
        return events

    @staticmethod
    def exists(storage: Storage) -> bool:
        """Return whether a command has logged that it began in a folder, or waited for a cluster before it began."""
        return any(event["event"] in ("began", "waiting") and "verb" in event for event in EventLog.read(storage))

    def _append(self, line: bytes) -> None:
        with suppress(OSError):
            os.makedirs(os.path.dirname(self.storage.path(FILE)), exist_ok=True)
            with open(self.storage.path(FILE), "a+b", buffering=0) as file:
                if file.tell() and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n":
                    line = b"\n" + line  # its writer was killed in the middle of the last line
                file.write(line)


def _lines(storage: Storage) -> list[bytes]:
    """Return the lines of the file and of segments; a killed command may have left a segment that is in both."""
    whole = storage.content(FILE).splitlines()
    known = set(whole)
    later = b"".join(storage.content(f"{SEGMENTS}/{name}") for name in _segments(storage)).splitlines()
    return [*whole, *(line for line in later if line not in known)]


def _segments(storage: Storage) -> list[str]:
    """Return the names of the files of events that are not in the log itself yet, which only a URI has."""
    return [] if storage.local else storage.names(SEGMENTS)


def reason(error: object) -> str:
    """Return an error's reason in one line: the last line of its traceback or message.

    Numba's messages, in colours, have the reason in front of the calls that led to it.
    """
    lines = [line.strip() for line in re.sub(r"\x1b\[[\d;]*m", "", str(error)).splitlines() if line.strip()]
    if any("in nopython mode" in line for line in lines):
        return next((line for line in lines if "in nopython mode" not in line), lines[-1])
    return lines[-1] if lines else type(error).__name__
