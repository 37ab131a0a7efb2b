"""Resolves the relative paths of a command that is continued from another working folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import chdir, contextmanager, suppress
from pathlib import Path
from typing import Any

from pyrite.cluster.jobs.working_folder import ClusterPaths, WorkingFolder

STARTED_IN = "started_in"
"""Key in `config.yaml` of the working folder, to which relative paths refer."""


def recorded_folder(saved: Mapping[str, Any], results: str | None = None) -> str | None:
    """Return the folder in which an experiment was started, to which its relative paths refer.

    None if that is the current folder, or none that this user could have started it in: it does not exist on this
    machine, belongs to another user, or lies in the folder of results, which may come from anywhere.

    Args:
        results: the folder of results; None if the folder is only named, and not entered.
    """
    folder = saved.get(STARTED_IN)
    with suppress(OSError):
        if not isinstance(folder, str) or not os.path.isabs(folder) or os.path.samefile(folder, os.curdir):
            return None
        received = results is not None and Path(folder).resolve().is_relative_to(Path(results).resolve())
        return folder if os.getuid() in (0, os.stat(folder).st_uid) and not received else None
    return None


@contextmanager
def entered(folder: str) -> Iterator[None]:
    """Work in a folder that a file names, until the context ends. No module is imported from there because of that."""
    relative = {os.path.abspath(path): path for path in sys.path if not os.path.isabs(path)}
    variable = os.environ.get("PYTHONPATH")
    sys.path[:] = map(os.path.abspath, sys.path)
    if variable:  # for processes that are started
        os.environ["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, variable.split(os.pathsep)))
    try:
        with chdir(folder):
            yield
    finally:
        sys.path[:] = [relative.get(path, path) for path in sys.path]
        if variable:
            os.environ["PYTHONPATH"] = variable


def absolute(overrides: Iterable[Any], folder: str | None) -> list[str]:
    """Return overrides in which paths that exist, as seen from a folder, are absolute; None leaves all as they are."""
    texts = list(map(str, overrides))
    if folder is None:
        return texts
    return ClusterPaths(WorkingFolder(Path(), {}), same_machine=True, start=Path(folder)).inputs(texts)
