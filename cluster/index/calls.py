"""Handles failed calls to index actors: errors without Ray's wrapping, and the pauses between retries."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import ray

from ranking.errors import BadInput

RETRY_BACKOFF_S = (0.1, 2.0)
"""First and longest pause between two calls to an actor that is lost."""
CLOSE_TIMEOUT_S = 5.0
"""How long the end of an index waits for actors to delete their files."""
MAX_RESTARTS = 3
"""How often one block, or one version's shards, are tried again after actors died; then the error is raised."""


@contextmanager
def unwrapped() -> Iterator[None]:
    """Raise `BadInput` from an actor as itself, without Ray's traceback around it."""
    try:
        yield
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, BadInput):
            raise error.cause from None
        raise


def retries() -> Iterator[None]:
    """Yield once per attempt, with a growing pause before each one after the first."""
    pause, longest = RETRY_BACKOFF_S
    yield
    while True:
        time.sleep(pause)
        pause = min(2 * pause, longest)
        yield
