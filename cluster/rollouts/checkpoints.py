"""Saves the state of a learning, and loads the newest one that is whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyrite.cluster.output.provenance import differences
from pyrite.cluster.output.result_store import BUILT_FROM, ResultStore
from pyrite.ranking.checkpoint import from_bytes, to_bytes
from pyrite.ranking.errors import BadInput

STATE, BEFORE = "state.safetensors", "state.before.safetensors"
DAMAGED = ".damaged"
"""Suffix of a state that was set aside."""


def save(store: ResultStore, state: dict[str, Any]) -> None:
    """Save a state, and keep the one before it: it holds hours of work."""
    storage, content = store.storage, to_bytes(state | {BUILT_FROM: built_from(store)})
    if storage.renames:  # objects in an object store are always whole, and the store keeps copies of them
        storage.move(STATE, BEFORE)
    storage.write(STATE, content)


def load(store: ResultStore, note: Callable[[str], None] = lambda line: None) -> dict[str, Any] | None:
    """Return the newest whole state; None if there is none, or it was built from other data or code.

    Damaged states are set aside.

    Args:
        note: called with a line about each state that is not used, and where the learning continues instead.
    """
    storage = store.storage
    for file in (STATE, BEFORE):
        content = storage.read(file)
        if content is None:
            continue
        try:
            state: dict[str, Any] = from_bytes(content, f"{storage}/{file}")
        except BadInput:
            storage.move(file, file + DAMAGED)
            origin = "the state before it" if file == STATE and storage.read(BEFORE) is not None else "the beginning"
            note(f"{storage}/{file} is damaged and was set aside; continuing from {origin}")
            continue
        before, now = state.pop(BUILT_FROM, {}), built_from(store)
        if now and (changed := differences(before, now)):
            note(f"{storage}/{file} was built from another {', '.join(changed)}; learning starts again")
            return None
        return state
    return None


def delete(store: ResultStore) -> None:
    """Delete the states of a finished learning."""
    for file in (STATE, BEFORE):
        store.storage.delete(file)


def built_from(store: ResultStore) -> dict[str, str]:
    """Return the digests of the data and code of a learning; empty if its store has none."""
    return {} if store.built_from is None or callable(store.built_from) else dict(store.built_from)
