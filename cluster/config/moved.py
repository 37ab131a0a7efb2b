"""Names the present paths of classes that version 0.2 installed under other packages."""

from __future__ import annotations

import importlib.util
import re

from pyrite.ranking.errors import BadInput

PACKAGES = ("cluster", "pooling", "ranking", "rl", "sampling")
"""Packages that are parts of `pyrite` since version 0.3."""
_TARGET = re.compile(rf"(?<=_target_[=:])( ?)((?:{'|'.join(PACKAGES)})(?:\.\w+)+)")


def moved(path: str) -> str | None:
    """Return the present path of a module or class that version 0.2 had elsewhere; None if there is none.

    >>> moved("sampling.selection.simans.SimANS")
    'pyrite.sampling.selection.simans.SimANS'
    """
    head, *rest = path.split(".")
    if head not in PACKAGES or not rest:
        return None
    return f"pyrite.{path}" if importlib.util.find_spec(f"pyrite.{head}.{rest[0]}") else None


def with_present_paths(override: str) -> str:
    """Return an override of an older version with the present paths of its classes."""
    return _TARGET.sub(lambda found: found[1] + (moved(found[2]) or found[2]), override)


def moved_error(error: ImportError, path: str) -> BadInput | None:
    """Return the line for a class or an import that has another path now; None if the error has another reason.

    Args:
        error: the error of importing the class's module.
        path: the path of the class.
    """
    if present := moved(path):
        remedy = "write that; a folder with results of version 0.2 needs pip install 'pyrite-ir<0.3'"
        return BadInput(f"is called {present} since version 0.3", path, remedy)
    if path.partition(".")[0] in PACKAGES:
        return BadInput("there is no such class", path, "classes of Pyrite begin with pyrite, see `pyrite options`")
    if (error.name or "").partition(".")[0] in PACKAGES:
        what = f"imports {error.name}, which is pyrite.{error.name} since version 0.3"
        return BadInput(what, path.rpartition(".")[0], f"write: from pyrite.{error.name} import …")
    return None
