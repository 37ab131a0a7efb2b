"""Waits for processes that are no children of the test's to end."""

import subprocess
import time


def ends(pid: int, within: float = 60) -> bool:
    """Whether a process ends within some seconds; one that nothing has waited for yet has ended too."""
    last = time.monotonic() + within
    while time.monotonic() < last:
        state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
        if not state or state.startswith("Z"):
            return True
        time.sleep(0.1)
    return False
