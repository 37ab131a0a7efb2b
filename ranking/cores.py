"""Counts the cores that this process may use: by its affinity, and by the quota of its container."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")


def cores() -> int:
    """Return the number of cores; at least 1."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([available, *(math.floor(quota) for quota in quotas())]))


def quotas(cgroups: Path = CGROUPS, membership: Path = MEMBERSHIP) -> Iterator[float]:
    """Yield the quota of cores of each control group that this process belongs to, versions 1 and 2."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = cgroups if not controllers else cgroups / "cpu"
        # In a container the path is that of the host, and the container's group is mounted at the root.
        for folder in dict.fromkeys([root, *_with_parents(root, group)]):
            quota = _quota(folder, new=not controllers)
            if quota is not None:
                yield quota


def _with_parents(root: Path, group: str) -> Iterator[Path]:
    parts = [part for part in group.split("/") if part not in ("", "..")]
    for length in range(1, len(parts) + 1):
        yield root.joinpath(*parts[:length])


def _quota(folder: Path, new: bool) -> float | None:
    """Return the cores of a group's quota; None without one."""
    try:
        if new:
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota, period = ((folder / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
        return None if quota in ("max", "-1") or not int(period) else int(quota) / int(period)
    except (OSError, ValueError):
        return None
