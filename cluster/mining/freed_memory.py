"""Returns freed memory to the system at once, by glibc's mallopt."""

from __future__ import annotations

import ctypes
import platform

M_MMAP_THRESHOLD = -3
"""Number of the option in malloc.h."""
THRESHOLD = 128 << 10
"""Size in bytes from which glibc maps blocks separately, until it raises it."""


def give_back() -> bool:
    """Fix the size from which glibc maps blocks separately, for the whole process.

    glibc raises this size, up to 32 MiB, each time a large block is freed. Later blocks below it come from the heap,
    and stay there if a small block follows them. Mining frees one matrix after another and keeps small results of
    each, which left a twentieth of its memory unused.

    Returns:
        Whether the size was fixed; False with other C libraries, which do not need it.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    return bool(ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, THRESHOLD))
