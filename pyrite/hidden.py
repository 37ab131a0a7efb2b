"""Refuses a file of the user that hides one of Pyrite's packages, such as a `ranking.py` next to a script."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

OURS = Path(__file__).resolve().parents[1]
PACKAGES = ("cluster", "pooling", "ranking", "rl", "sampling")


def refuse_hidden_packages(path: Sequence[str] | None = None) -> None:
    """Raise if Python would import a file of the user instead of a package of Pyrite.

    Args:
        path: folders in which Python looks for modules; None is `sys.path`.

    Raises:
        ImportError: if a file such as `ranking.py` is in a folder of `path` before Pyrite.
    """
    for name in PACKAGES:
        spec = PathFinder.find_spec(name, path)
        file = Path(spec.origin) if spec is not None and spec.origin else None
        if file is not None and file.resolve().parent.parent != OURS:
            raise ImportError(f"{file} hides Pyrite's package {name!r}; rename it, or move it to another folder")
