"""Waits for processes that are no children of the test's to end."""

import os
import time


def ends(pid: int, within: float = 30) -> bool:
    """Whether a process ends within some seconds."""
    last = time.monotonic() + within
    while time.monotonic() < last:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False
