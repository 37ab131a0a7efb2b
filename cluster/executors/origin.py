"""Carries the working folder and the classes of a notebook to the process that runs a task."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from cluster.executors.task import Task
from ranking.errors import BadInput

MAIN = "__main__."


@dataclass(frozen=True)
class Origin:
    """Where a task was made.

    Args:
        folder: the working folder, for relative paths.
        classes: pickled objects of `__main__` that the task's arguments name, such as a notebook's classes.
    """

    folder: str | None = None
    classes: Mapping[str, bytes] = field(default_factory=dict)

    def enter(self) -> None:
        """Make them available in this process. A folder that does not exist here is left out."""
        import cloudpickle

        with suppress(OSError):
            if self.folder is not None:
                os.chdir(self.folder)
        for name, content in self.classes.items():
            setattr(sys.modules["__main__"], name, cloudpickle.loads(content))


def origin_of(task: Task) -> Origin:
    """Return the origin of a task that is made in this process.

    Raises:
        BadInput: if the arguments name something that `__main__` does not have.
    """
    try:
        folder = os.getcwd()
    except FileNotFoundError:  # it was deleted
        folder = None
    return Origin(folder, {name: _pickled(name) for name in sorted(set(_named(task.arguments)))})


def _named(value: Any) -> Iterator[str]:
    """Yield the names in `__main__` that configurations among the arguments mention."""
    if isinstance(value, str) and value.startswith(MAIN):
        yield value.removeprefix(MAIN).split(".")[0]
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _named(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _named(item)


def _pickled(name: str) -> bytes:
    import cloudpickle

    main = sys.modules["__main__"]
    if not hasattr(main, name):
        raise BadInput("is not defined in this program", f"{MAIN}{name}", "define it, or put it into a module")
    try:
        content: bytes = cloudpickle.dumps(getattr(main, name))
    except Exception as error:
        remedy = "put it into a module next to the program"
        raise BadInput(f"can't be sent to other processes ({error})", f"{MAIN}{name}", remedy) from None
    return content
