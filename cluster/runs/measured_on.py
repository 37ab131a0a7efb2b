"""Finds the other collections that rankers are evaluated on, in the folders of `evaluate`."""

from __future__ import annotations

from pathlib import Path

from ranking.collections.beir import Beir
from ranking.errors import BadInput

MEAN = "mean"
"""Name of the row with the means over collections."""


def collections_of(places: list[str]) -> dict[str, Beir]:
    """Return the collections of `evaluate`, by their names.

    Args:
        places: BEIR folders, or folders of BEIR folders.

    Raises:
        BadInput: if a folder holds no collection, or two have the same name.
    """
    collections: dict[str, Beir] = {}
    for place in places:
        root = Path(place).expanduser()
        folders = [root, *sorted(path for path in root.glob("*") if path.is_dir())]
        beir = [path for path in folders if any((path / f"corpus.jsonl{end}").is_file() for end in ("", ".gz"))]
        if not beir:
            raise BadInput("is no BEIR folder, and holds none", place, "name folders with a corpus.jsonl: evaluate=[…]")
        for folder in beir[:1] if beir[0] == root else beir:
            name = folder.resolve().name
            if name in collections or name == MEAN:
                raise BadInput(f"two collections are called {name}", "evaluate", "rename a folder")
            collections[name] = Beir(folder)
    return collections
