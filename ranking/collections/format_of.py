"""Finds the format of a collection (BEIR, MS MARCO, TREC or pairs) from its files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pyrite.ranking.collections.beir import Beir
from pyrite.ranking.collections.msmarco import MsMarco
from pyrite.ranking.collections.pairs import Pairs
from pyrite.ranking.collections.reader import Reader
from pyrite.ranking.collections.row_files import DATASET_DICT, row_files
from pyrite.ranking.collections.trec import Trec
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.hub import HUB, local_path
from pyrite.ranking.similar import similar_path

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
        remedy = "check the path, or give the format with collection=NAME too"
        raise BadInput("no such folder", place, similar_path(place, remedy))
    return recognised(place) or _refused(place)


def _refused(folder: Path) -> str:
    """Refuse a folder whose format no reader knows."""
    inside = sorted(folder.iterdir())
    inner = [str(inner) for inner in filter(Path.is_dir, inside) if recognised(inner)]
    holds = ", ".join(file.name for file in inside[:6]) or "nothing"
    what = f"can't recognise the format of the collection (the folder holds {holds})"
    refuse(inner, what, folder, f"name the folder in it: {''.join(inner[:1])}")
    formats = ", ".join([*FOLDERS, "pairs"])
    raise BadInput(what, folder, f"give collection=NAME, of {formats}; docs/guide/collections.md has their files")


def reader_of(path: str | Path, **options: Any) -> Reader:
    """Return the reader of a collection, see `format_of`.

    Args:
        options: options of that format's reader.
    """
    readers: dict[str, Callable[..., Reader]] = {**FOLDERS, "pairs": Pairs}
    return readers[format_of(path)](path=str(path), **options)


def recognised(folder: Path) -> str | None:
    """Return the format of a folder; None if no reader knows its files."""
    beir = Beir(folder)
    if beir.subsets() or beir.is_named_so():
        return "beir"  # whose reader asks for a subset, or reports what is wrong: as TREC it would lose its splits
    readers = {name: reader(folder) for name, reader in FOLDERS.items()}
    whole = [(name, reader.sources) for name, reader in readers.items()]
    begun = [(name, partial(reader.portions, sys.maxsize)) for name, reader in readers.items()]
    checks = [*whole, *begun, ("pairs", partial(row_files, folder))]
    saved = "pairs" if (folder / DATASET_DICT).is_file() else None  # whose reader reports what is missing
    return next((name for name, files in checks if _finds(files)), saved)


def _finds(files: Callable[[], object]) -> bool:
    try:
        files()
    except BadInput:
        return False
    return True
