"""Runs tasks in a warm process (`cluster.executors.processes`), which its parent talks to over a pair of sockets.

It sends READY, then receives (task, shared, sys.path) again and again, and answers with any number of ("report", …)
and one ("value", …) or ("error", …).
"""

from __future__ import annotations

import pickle
import signal
import sys
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from cluster.executors.task import Context, Once, Task, bound, built, located

READY = "ready"


def main(descriptor: int, warm_up: str) -> None:
    """Run tasks until the other end is closed.

    Args:
        descriptor: the socket.
        warm_up: a function to call first, as "package.module:function"; "" calls none.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it too, and ends this process
    with suppress(EOFError, ConnectionError):  # the parent has ended, or needs no other process
        serve(Connection(descriptor), warm_up)


def serve(connection: Connection, warm_up: str = "") -> None:
    """Run each task that comes."""
    if warm_up:
        located(warm_up)()
    connection.send(READY)
    kept: dict[bytes, Any] = {}
    while True:
        task, shared, path, origin = connection.recv()
        sys.path[:] = path  # a user's classes are found where the parent finds them
        try:
            origin.enter()
            answer = "value", _run(connection, task, shared, kept)
        except ConnectionError:  # of a report
            raise
        except Exception as error:
            answer = "error", portable(error)
        connection.send(answer)


def _run(connection: Connection, task: Task, shared: dict[str, Any], kept: dict[bytes, Any]) -> Any:
    for name, value in shared.items():
        if isinstance(value, Once):
            content = pickle.dumps(value)
            if content not in kept:
                kept[content] = built({name: value})[name]
            shared[name] = kept[content]
    return bound(task, shared, Context(lambda report: connection.send(("report", report))))()


def portable(error: Exception) -> Exception:
    """Return the error in a form that another process can read, with its traceback as a note."""
    text = traceback.format_exc()
    try:
        same: Exception = pickle.loads(pickle.dumps(error))
    except Exception:
        same = RuntimeError(f"{type(error).__name__}: {error}")
    same.add_note(text)
    return same
