"""Measures the most memory that a run holds, on the device that it trains on or else in this process."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import torch

MIB = 1 << 20
STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class PeakMemory:
    """The peak from its construction on: the process's resident memory (libraries and the collection among it) or, with
    a GPU, what the run has allocated there."""

    def __init__(self) -> None:
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        with suppress(OSError):  # then it is the peak of the process
            RESET.write_text("5")  # sets the peak to what is resident now

    def mib(self) -> float | None:
        """The peak in MiB; None if this system does not record it."""
        if torch.cuda.is_available() and torch.cuda.max_memory_allocated():
            return torch.cuda.max_memory_allocated() / MIB
        try:
            lines = STATUS.read_text().splitlines()
        except OSError:
            return None
        return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), None)
