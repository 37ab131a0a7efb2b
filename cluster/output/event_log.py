"""Writes what happens in an output folder to `log.jsonl`, a line an event."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from cluster.output.storage import Storage
from cluster.output.throttle import Throttle
from ranking.errors import BadInput

FILE = "log.jsonl"
SEGMENTS = "log"
"""Folder of what is not in the file yet, behind a URI."""


class EventLog:
    """Writes down events; one process does for a folder.

    On a local path each event is one write to the end of the file, so that a process that is killed has told all it
    did. What lies behind a URI can't be appended to: there the latest events are kept in memory, and every so often
    written as a file of their own in `log/`; when the command ends all of them become one file.
    A log that can't be written ends no study: it is told no further, and what the study itself can't write says why.

    Args:
        storage: the folder.
        every: seconds between two writings, of a URI.
    """

    def __init__(self, storage: Storage, every: float = 30.0) -> None:
        self.storage = storage
        self._throttle, self._latest, self._segments = Throttle(every), b"", 0

    def emit(self, event: str, **facts: Any) -> None:
        """Write down what has happened.

        Args:
            event: in a few words, as `run ended`.
            facts: numbers and texts, mappings and lists of them; what is None is left out, and no number is null.
        """
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        said = {key: value for key, value in facts.items() if value is not None}
        line = json.dumps(_plain({"time": now, "event": event, **said}), ensure_ascii=False).encode() + b"\n"
        if self.storage.local:
            self._append(line)
            return
        self._latest += line
        if self._throttle.due():
            self.flush()

    def flush(self) -> None:
        """Write what is kept in memory; what can't be written is tried again the next time."""
        if self._latest:
            begun = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")  # in the order of names
            with suppress(BadInput):
                self.storage.write(f"{SEGMENTS}/{begun}-{os.getpid()}-{self._segments:06}.jsonl", self._latest)
                self._latest, self._segments = b"", self._segments + 1

    def close(self) -> None:
        """Make one file of all that was written."""
        self.flush()
        names = [] if self.storage.local else self.storage.names(SEGMENTS)
        if not names:
            return
        with suppress(BadInput):
            self.storage.write(FILE, b"".join(line + b"\n" for line in _lines(self.storage)))
            for name in names:
                self.storage.delete(f"{SEGMENTS}/{name}")

    @contextmanager
    def session(self, verb: str, resumed: bool, **facts: Any) -> Iterator[None]:
        """Write down that a command began or went on, and how it ended.

        Args:
            verb: study, train, learn or pool.
            resumed: the folder holds what an earlier command began.
            facts: of its beginning.
        """
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
        """The events of a folder in their order; a line that was cut short is passed over."""
        found = []
        for line in _lines(storage):
            with suppress(ValueError):
                event = json.loads(line)
                found += [event] if isinstance(event, dict) and "event" in event else []
        return found

    def _append(self, line: bytes) -> None:
        with suppress(OSError):
            os.makedirs(os.path.dirname(self.storage.path(FILE)), exist_ok=True)
            with open(self.storage.path(FILE), "a+b", buffering=0) as file:
                if file.tell() and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n":
                    line = b"\n" + line  # whoever wrote the last one was killed in the middle of it
                file.write(line)


def _lines(storage: Storage) -> list[bytes]:
    """What stands in the file and in segments; a command that was killed may have left a segment that is in both."""
    whole = (storage.read(FILE) or b"").splitlines()
    names = [] if storage.local else storage.names(SEGMENTS)
    known = set(whole) if names else set()
    later = [line for name in names for line in (storage.read(f"{SEGMENTS}/{name}") or b"").splitlines()]
    return whole + [line for line in later if line not in known]


def reason(error: object) -> str:
    """What went wrong in one line: the last of a traceback, or of the message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def _plain(value: Any) -> Any:
    """The same for JSON, which knows neither NaN nor infinity.

    Raises:
        TypeError: of an array or a tensor: a log has none.
    """
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float):
        return value if value - value == 0 else None
    if value is None or isinstance(value, str | int):
        return value
    raise TypeError(f"{type(value).__name__} is nothing for a log")
