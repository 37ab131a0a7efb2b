"""Saves the state of a learning, and loads the newest one that is whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cluster.output.storage import Storage
from ranking.checkpoint import from_bytes, to_bytes
from ranking.errors import BadInput

STATE, BEFORE = "state.safetensors", "state.before.safetensors"
DAMAGED = ".damaged"
"""Ends the name of a state that was set aside."""


def save(storage: Storage, state: dict[str, Any]) -> None:
    """Keep a state, and the last one beside it: hours of work hang on them."""
    content = to_bytes(state)
    if storage.renames:  # what stands in an object store is whole, and its copies are the store's own
        storage.move(STATE, BEFORE)
    storage.write(STATE, content)


def load(storage: Storage, note: Callable[[str], None] = lambda line: None) -> dict[str, Any] | None:
    """The newest whole state; None where there is none. Damaged ones are set aside.

    Args:
        storage: the folder.
        note: told what is damaged, and what is gone on with instead.
    """
    for file in (STATE, BEFORE):
        content = storage.read(file)
        if content is None:
            continue
        try:
            state: dict[str, Any] = from_bytes(content, f"{storage}/{file}")
            return state
        except BadInput:
            storage.move(file, file + DAMAGED)
            again = "the state before it" if file == STATE and storage.read(BEFORE) is not None else "the beginning"
            note(f"{storage}/{file} is damaged and was set aside; going on from {again}")
    return None


def forget(storage: Storage) -> None:
    """Delete what an ended learning does not need."""
    for file in (STATE, BEFORE):
        storage.delete(file)
