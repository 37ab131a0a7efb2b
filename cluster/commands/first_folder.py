"""Resolves the relative paths of a command that is continued from another working folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyrite.cluster.jobs.working_folder import ClusterPaths, WorkingFolder

STARTED_IN = "started_in"
"""Key in `config.yaml` of the working folder, to which relative paths refer."""


def recorded_folder(saved: Mapping[str, Any]) -> str | None:
    """Return the folder in which an experiment was started, to which its relative paths refer.

    None if that is the current folder, or does not exist on this machine.
    """
    folder = saved.get(STARTED_IN)
    with suppress(OSError):
        return folder if folder and os.path.isdir(folder) and not os.path.samefile(folder, os.curdir) else None
    return None


def absolute(overrides: Iterable[Any], folder: str | None) -> list[str]:
    """Return overrides in which paths that exist, as seen from a folder, are absolute; None leaves all as they are."""
    texts = list(map(str, overrides))
    if folder is None:
        return texts
    return ClusterPaths(WorkingFolder(Path(), {}), same_machine=True, start=Path(folder)).inputs(texts)
