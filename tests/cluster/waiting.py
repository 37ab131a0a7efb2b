"""Waits for what another process or thread does."""

import time
from collections.abc import Callable
from typing import Any


def for_ever() -> None:
    """Wait until this process is ended."""
    time.sleep(3600)


def until(true: Callable[[], Any], seconds: float = 90) -> None:
    """Wait for what must come."""
    given_up = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < given_up
        time.sleep(0.02)
