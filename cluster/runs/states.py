"""Saves and loads a run's state, which the first of several workers writes and all of them read."""

from __future__ import annotations

from typing import Any, Protocol

import torch.distributed as dist

from pyrite.ranking.checkpoint import from_bytes, to_bytes


class StateStore(Protocol):
    """A place for a run's state, from which it resumes after an interrupt: `SavedState`, or an actor's memory."""

    def load(self) -> bytes | None: ...
    def save(self, state: bytes) -> None: ...


def load_state(store: StateStore) -> dict[str, Any] | None:
    """Return the last state, whatever the number of workers that saved it; None at the start."""
    saved = store.load()
    return None if saved is None else from_bytes(saved)


def save_state(store: StateStore, state: dict[str, Any]) -> None:
    """Save a state if this is the first worker of a run, or the only process."""
    if not dist.is_initialized() or dist.get_rank() == 0:
        store.save(to_bytes(state))
