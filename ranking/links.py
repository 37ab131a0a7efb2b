"""Refuses links inside a folder of results, through which a file could be written anywhere."""

from __future__ import annotations

import itertools
import os
from contextlib import suppress
from pathlib import Path

from pyrite.ranking.errors import refuse

UNSEARCHED = ("wandb",)
"""Folders whose links stay: W&B writes each run into a new folder, with links to its own logs."""
LINK = "is a link, and files are not written through one"
REMEDY = "replace it by a copy of what it points to, or delete it"


def refuse_links(folder: str | os.PathLike[str]) -> None:
    """Refuse a folder with links that lead out of it, since a file that is written there would change another.

    The folder itself may be a link, and so may folders directly in it: they are put on other disks that way. A link to
    something in the folder may stay. A folder that does not exist, or can't be listed, is not refused.
    """
    top = os.fspath(folder)
    tops = [top, *(entry.path for entry in _entries(top) if entry.is_symlink() and entry.is_dir())]
    inside = tuple(f"{os.path.realpath(start)}{os.sep}" for start in tops)
    for parent, folders, files in itertools.chain.from_iterable(map(os.walk, tops)):
        at_top = parent == top
        folders[:] = sorted({*folders} - {*(UNSEARCHED if at_top else ())})
        paths = (os.path.join(parent, name) for name in (files if at_top else files + folders))
        for link in filter(os.path.islink, paths):
            refuse(not os.path.realpath(link).startswith(inside), LINK, link, REMEDY)


def refuse_linked_folder(top: str, name: str) -> None:
    """Refuse to write a file that lies behind a link to a folder, unless the link is directly in `top`."""
    path = Path(top)
    for depth, part in enumerate(Path(name).parts[:-1]):
        path /= part
        refuse(depth and path.is_symlink(), LINK, path, REMEDY)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    with suppress(OSError):
        return list(os.scandir(folder))
    return []
