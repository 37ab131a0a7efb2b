"""Recognises the format of a collection by its files, so that users need not name it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from ranking.collections.beir import Beir
from ranking.collections.hub_files import HUB
from ranking.collections.msmarco import MsMarco
from ranking.collections.pairs import Pairs
from ranking.collections.trec import Trec
from ranking.errors import BadInput

FOLDERS = {"beir": Beir, "msmarco": MsMarco, "trec": Trec}
"""Readers of folders by the names of their formats. A folder that two of them can read is of the first."""


def format_of(path: str | Path) -> str:
    """Return the format of a collection: beir, msmarco, trec or pairs.

    It is the first format of which all files are there, or else the first of which the documents are there, whose
    reader then says what is missing. A file, and a folder of tables without such names, is of pairs.

    Args:
        path: a folder, a file, or `hf:NAME` for a dataset at the Hugging Face hub.

    Raises:
        BadInput: if there is no such folder, or nothing that a reader knows.
    """
    place = Path(path).expanduser()
    if str(path).startswith(HUB) or place.is_file() or (place.suffix and not place.exists()):
        return "pairs"  # whose reader says what is wrong with a file
    if not place.exists():
        raise BadInput("no such folder", place, "check the path, or give the format with collection=NAME too")
    if name := _recognised(place):
        return name
    inside = sorted(place.iterdir())
    inner = next((folder for folder in inside if folder.is_dir() and _recognised(folder)), None)
    remedy = f"give collection=NAME, of {', '.join([*FOLDERS, 'pairs'])}; docs/guide/collections.md has their files"
    holds = ", ".join(file.name for file in inside[:6]) or "nothing"
    raise BadInput(
        f"can't recognise the format of the collection (the folder holds {holds})",
        place,
        f"name the folder in it: {inner}" if inner else remedy,
    )


def _recognised(folder: Path) -> str | None:
    readers = {name: reader(folder) for name, reader in FOLDERS.items()}
    for name, reader in readers.items():
        if _finds(reader.sources):
            return name
    for name, reader in readers.items():
        if _finds(lambda reader=reader: reader.portions(sys.maxsize)):  # type: ignore[misc]
            return name
    return "pairs" if _finds(Pairs(path=folder).sources) else None


def _finds(files: Callable[[], object]) -> bool:
    try:
        files()
    except BadInput:
        return False
    return True
