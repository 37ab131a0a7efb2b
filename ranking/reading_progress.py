"""Tells a watcher how many texts a transformer has read, wherever texts are read without being learned from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

OnRead = Callable[[int, int], None]
"""Called with the number of texts that were read and of all that will be."""


class _Reading:
    """The texts that are read at present."""

    def __init__(self, on_read: OnRead) -> None:
        self.on_read, self.done, self.total = on_read, 0, 0


_watched: ContextVar[_Reading | None] = ContextVar("reading", default=None)


@contextmanager
def watched_reading(on_read: OnRead) -> Iterator[None]:
    """A context in which reading is reported."""
    token = _watched.set(_Reading(on_read))
    try:
        yield
    finally:
        _watched.reset(token)


@contextmanager
def reading(total: int) -> Iterator[None]:
    """A context in which `total` texts, or pairs of them, are read. Within another one it does nothing."""
    state = _watched.get()
    if state is None or state.total or not total:
        yield
        return
    state.done, state.total = 0, total
    try:
        yield
        state.on_read(total, total)  # also those that are alike, and were read once
    finally:
        state.total = 0


def count_read(texts: int) -> None:
    """Report that `texts` more texts were read."""
    state = _watched.get()
    if state is not None and state.total:
        state.done = min(state.done + texts, state.total)
        state.on_read(state.done, state.total)
