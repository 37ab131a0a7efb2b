"""Raises errors of an actor in its caller without Ray's wrapping."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import ray

from ranking.errors import BadInput


@contextmanager
def unwrapped() -> Iterator[None]:
    """Bad input that an actor found is the user's to mend: raised as itself, without Ray's traceback around it."""
    try:
        yield
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, BadInput):
            raise error.cause from None
        raise
