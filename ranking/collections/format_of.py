"""Finds the format of a collection (BEIR, MS MARCO, TREC or pairs) from its files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from pyrite.ranking.collections.beir import Beir
from pyrite.ranking.collections.msmarco import MsMarco
from pyrite.ranking.collections.pairs import Pairs
from pyrite.ranking.collections.reader import Reader
from pyrite.ranking.collections.trec import Trec
from pyrite.ranking.errors import BadInput
from pyrite.ranking.hub import HUB, local_path

FOLDERS = {"beir": Beir, "msmarco": MsMarco, "trec": Trec}
"""Readers of folders by the names of their formats. The first one that can read a folder is taken."""


def format_of(path: str | Path) -> str:
    """Return the format of a collection: beir, msmarco, trec or pairs.

    It is the first format with all of its files in the folder, or else the first with its documents, whose reader
    reports what is missing. A single file, and a folder of tables with other names, has the format pairs.

    Args:
        path: a folder, a file, or `hf:NAME` for a dataset at the Hugging Face hub.

    Raises:
        BadInput: if there is no such folder, or nothing that a reader knows.
    """
    if str(path).startswith(HUB):
        return "pairs"
    place = local_path(path)
    if place.is_file() or (place.suffix and not place.exists()):
        return "pairs"  # its reader reports what is wrong with a file
    if not place.exists():
        raise BadInput("no such folder", place, "check the path, or give the format with collection=NAME too")
    if name := recognised(place):
        return name
    inside = sorted(place.iterdir())
    inner = [folder for folder in inside if folder.is_dir() and recognised(folder)]
    remedy = f"give collection=NAME, of {', '.join([*FOLDERS, 'pairs'])}; docs/guide/collections.md has their files"
    remedy = f"name the folder in it: {inner[0]}" if inner else remedy
    holds = ", ".join(file.name for file in inside[:6]) or "nothing"
    raise BadInput(f"can't recognise the format of the collection (the folder holds {holds})", place, remedy)


def reader_of(path: str | Path) -> Reader:
    """Return the reader of a collection, see `format_of`."""
    readers: dict[str, Callable[..., Reader]] = {**FOLDERS, "pairs": Pairs}
    return readers[format_of(path)](path=str(path))


def recognised(folder: Path) -> str | None:
    """Return the format of a folder; None if no reader knows its files."""
    if Beir(folder).subsets():
        return "beir"  # whose reader asks for one of them
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
