"""Finds the other collections that rankers are measured on, in the folders that `evaluate` names."""

from __future__ import annotations

from pathlib import Path

from ranking.collections.beir import Beir
from ranking.errors import BadInput

MEAN = "mean"
"""What the row of all collections together is called."""


def collections_of(places: list[str]) -> dict[str, Beir]:
    """The collections that `evaluate` names, by their names.

    Args:
        places: BEIR folders, or folders of several.

    Raises:
        BadInput: where a folder is none, or two have one name.
    """
    found: dict[str, Beir] = {}
    for place in places:
        root = Path(place).expanduser()
        folders = [root, *sorted(each for each in root.glob("*") if each.is_dir())]
        here = [each for each in folders if any((each / f"corpus.jsonl{end}").is_file() for end in ("", ".gz"))]
        if not here:
            raise BadInput("is no BEIR folder, and holds none", place, "name folders with a corpus.jsonl: evaluate=[…]")
        for each in here[:1] if here[0] == root else here:
            name = each.resolve().name
            if name in found or name == MEAN:
                raise BadInput(f"two collections are called {name}", "evaluate", "rename a folder")
            found[name] = Beir(each)
    return found
