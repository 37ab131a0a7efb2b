"""Large blocks, given back as they are freed."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

BODY = """
import sys
from pathlib import Path
if sys.argv[1] == "held":
    from cluster.mining.miner import give_back
    assert give_back()
import numpy as np

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

np.ones(32 << 17)  # freed: from here on glibc has blocks of up to 32 MiB on the heap, unless it is told not to
kept = []
before = resident()
for _ in range(8):
    large = np.ones(24 << 17)
    kept.append(np.ones(1 << 13))  # a small result behind it
    del large
print(resident() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc")
def test_what_small_results_stand_behind_is_given_back() -> None:
    def left(how: str) -> int:
        done = subprocess.run([sys.executable, "-c", BODY, how], capture_output=True, text=True, check=True)
        return int(done.stdout)

    assert left("held") < left("as it is") / 2
