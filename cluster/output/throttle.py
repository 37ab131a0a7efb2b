"""Limits how often something is done: a throttle, and a polling thread."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Throttle:
    """Is due at once, and then at most once per interval."""

    def __init__(self, every: float) -> None:
        self.every, self._next = every, 0.0

    def due(self) -> bool:
        """Return whether the interval has passed since this was last true."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + self.every
        return True


@contextmanager
def poll(look: Callable[[], Any], every: float, at_the_end: bool = True) -> Iterator[None]:
    """Call a function regularly from a separate thread."""
    ended = threading.Event()

    def keep_looking() -> None:
        while not ended.wait(every):
            look()

    context = contextvars.copy_context()  # in which a folder's classes are not trusted
    thread = threading.Thread(target=context.run, args=(keep_looking,), name="poll", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        if at_the_end:
            look()
