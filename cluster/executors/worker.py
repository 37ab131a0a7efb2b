"""Runs tasks in a warm process (`pyrite.cluster.executors.processes`), which its parent talks to over a pair of
sockets.

It sends True as soon as it is ready, then receives (task, shared, sys.path, origin) again and again, and answers with
any number of ("report", …) and one ("value", …) or ("error", …).
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from pyrite.cluster.config.nested import nodes
from pyrite.cluster.config.secrets import learn_from, remembered
from pyrite.cluster.executors.address import working_folder
from pyrite.cluster.executors.process_end import end_with
from pyrite.cluster.executors.task import Context, Once, Task, bound, built, located
from pyrite.cluster.lazy import cloudpickle
from pyrite.ranking.errors import BadInput, refuse

serving = False
"""Whether this process is one of them."""


def main(descriptor: int, warm_up: str, parent: int) -> None:
    """Run tasks until the other end is closed, or the parent has ended."""
    global serving
    serving = True
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it too, and ends this process
    end_with(parent, partial(os._exit, 1))
    with suppress(EOFError, ConnectionError):  # the parent has ended, or needs no other process
        _serve(Connection(descriptor), warm_up)


def _serve(connection: Connection, warm_up: str) -> None:
    if warm_up:
        located(warm_up)()
    connection.send(True)
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


MAIN = "__main__."


@dataclass(frozen=True)
class TaskOrigin:
    """The working folder in which a task was made, and pickled objects of `__main__` (a notebook's) that it names.

    `typed` is `pyrite.cluster.config.secrets.remembered`.
    """

    folder: str | None = None
    classes: Mapping[str, bytes] = field(default_factory=dict)
    typed: Mapping[str, str] = field(default_factory=dict, repr=False)

    def enter(self) -> None:
        """Make them available in this process. A folder that does not exist here is left out."""
        learn_from(self.typed)
        with suppress(OSError):
            if self.folder is not None:
                os.chdir(self.folder)
        for name, content in self.classes.items():
            setattr(sys.modules["__main__"], name, cloudpickle.loads(content))


def origin_of(task: Task) -> TaskOrigin:
    """Return the origin of a task that is made in this process. Names that `__main__` does not have are refused."""
    classes = {name: _pickled(name) for name in sorted(set(_named(task.arguments)))}
    return TaskOrigin(working_folder(), classes, remembered())


def _named(value: Any) -> Iterator[str]:
    """Yield the names in `__main__` that configurations among the arguments mention."""
    for node in nodes(value):
        if isinstance(node, str) and node.startswith(MAIN):
            yield node.removeprefix(MAIN).split(".")[0]


def _pickled(name: str) -> bytes:

    main = sys.modules["__main__"]
    refuse(
        not hasattr(main, name), "is not defined in this program", f"{MAIN}{name}", "define it, or put it into a module"
    )
    try:
        content: bytes = cloudpickle.dumps(getattr(main, name))
    except Exception as error:
        remedy = "put it into a module next to the program"
        raise BadInput(f"can't be sent to other processes ({error})", f"{MAIN}{name}", remedy) from None
    return content
