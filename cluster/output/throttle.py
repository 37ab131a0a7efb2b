"""Limits how often something is done: a throttle, and a thread that polls."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Throttle:
    """Says whether it is time again: at once, and then every so many seconds.

    Args:
        every: seconds.
    """

    def __init__(self, every: float) -> None:
        self.every, self._next = every, 0.0

    def due(self) -> bool:
        """Whether so many seconds have passed since this was last true."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + self.every
        return True


@contextmanager
def poll(look: Callable[[], Any], every: float, at_the_end: bool = True) -> Iterator[None]:
    """Call a function every so many seconds, from a thread of its own, and once more at the end.

    What it reads pays nothing for it, however often it changes.

    Args:
        look: is called without arguments.
        every: seconds between two calls.
        at_the_end: whether it is called once more when the context ends.
    """
    ended = threading.Event()

    def keep_looking() -> None:
        while not ended.wait(every):
            look()

    thread = threading.Thread(target=keep_looking, name="poll", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        if at_the_end:
            look()
