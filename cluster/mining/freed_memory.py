"""Returns freed memory to the system at once, by glibc's mallopt."""

from __future__ import annotations

import ctypes
import platform

M_MMAP_THRESHOLD = -3
"""What mallopt calls it (malloc.h)."""
THRESHOLD = 128 << 10
"""Bytes from which a block is mapped by itself: glibc's own, until it raises it."""


def give_back() -> bool:
    """Hold the size from which blocks are mapped where it is, from now on and for the whole process.

    With every large block that is freed glibc raises it, up to 32 MiB: blocks below come from the heap from then on,
    and what small results stand behind stays there. Mining frees a matrix after the other and holds on to what comes
    of them, which left a twentieth of its memory unused.

    Returns:
        Whether it could be done: elsewhere than with glibc it can't, and need not.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    return bool(ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, THRESHOLD))
