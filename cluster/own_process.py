"""Runs a function in a process of its own, so that what it imports and holds is gone when it is done."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

Returned = TypeVar("Returned")


def in_own_process(function: Callable[..., Returned], *arguments: Any) -> Returned:
    """What a function returns, which another process of this machine calls.

    Args:
        function: found by its name in its module.
        *arguments: which can be pickled, as what it returns.

    Raises:
        ChildProcessError: if the process has ended without an answer.
        Exception: whatever the function raises.
    """
    asked = pickle.dumps(sys.path) + pickle.dumps((function, arguments))
    process = subprocess.run([sys.executable, "-m", __name__], input=asked, stdout=subprocess.PIPE, check=False)
    try:
        returned, raised = pickle.loads(process.stdout)
    except EOFError:
        what = f"the process of {function.__name__} has ended (exit code {process.returncode})"
        raise ChildProcessError(what) from None
    if raised is not None:
        raise raised
    answer: Returned = returned
    return answer


def portable(error: Exception) -> Exception:
    """The error as it crosses to another process, with its traceback as a note."""
    told = traceback.format_exc()
    try:
        same: Exception = pickle.loads(pickle.dumps(error))
    except Exception:
        same = RuntimeError(f"{type(error).__name__}: {error}")
    same.add_note(told)
    return same


def _answer() -> None:
    """Call the function that comes on the standard input, and write what it returns, or raises, to the output."""
    with os.fdopen(os.dup(1), "wb") as output:
        os.dup2(2, 1)  # what others print is no answer
        sys.path[:] = pickle.load(sys.stdin.buffer)  # a user's classes are found where they were
        function, arguments = pickle.load(sys.stdin.buffer)
        try:
            answer: tuple[Any, Exception | None] = function(*arguments), None
        except Exception as error:
            answer = None, portable(error)
        output.write(pickle.dumps(answer))


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):  # it reaches the other process too
        _answer()
