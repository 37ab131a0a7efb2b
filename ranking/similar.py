"""Suggests the known name that is most like a misspelt one.

>>> similar("biencoder", ["bi_encoder", "cross_encoder"])
'bi_encoder'
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable
from pathlib import Path

SIMILARITY = 0.6
"""The least similarity of two names, from 0 to 1, at which one may mean the other."""
OF_FILES = 0.8
"""The same of the names of files, of which there may be many."""


def plain(name: str) -> str:
    """Return a name in small letters and digits alone, as names are compared.

    >>> plain("Bi-Encoder")
    'biencoder'
    """
    return re.sub(r"[\W_]", "", name.lower())


def similar(name: str, known: Iterable[str], least: float = SIMILARITY) -> str | None:
    """Return the known name that is most like another one; None if none is.

    Args:
        least: the least similarity, from 0 to 1.
    """
    by_plain = {plain(each): each for each in known}
    found = difflib.get_close_matches(plain(name), by_plain, 1, least)
    return by_plain[found[0]] if found else None


def similar_path(path: str | os.PathLike[str], otherwise: str = "check the path") -> str:
    """Return the remedy for a path that does not exist: the target of a link, or the file or folder next to it with a
    similar name.

    Args:
        otherwise: the remedy if there is none.
    """
    place = Path(path)
    if place.is_symlink():
        return f"it is a link to {os.readlink(place)}, which is not there"
    near = similar(place.name, os.listdir(place.parent) if place.parent.is_dir() else [], OF_FILES)
    return f"did you mean {place.parent / near}?" if near else otherwise
