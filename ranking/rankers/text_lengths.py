"""Reads and writes the text lengths (max_query, max_document) that a checkpoint was trained with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ranking.errors import BadInput
from ranking.rankers.ranker import Ranker
from ranking.rankers.sentence_folder import read_json, write_json

FILE = "text_lengths.json"
"""Beside the checkpoint's own files: no field of those says how long a query may be."""
KEYS = {"max_query", "max_document"}


def resolve_widths(
    ranker: type[Ranker],
    checkpoint: str,
    preset: str,
    layers: int | None = None,
    max_query: int | None = None,
    max_document: int | None = None,
) -> dict[str, Any]:
    """Layers and lengths: as given, or else the checkpoint's own, or else the preset's.

    A ranker that learned from short texts is worse at long ones, so that its own lengths come before a preset's.

    Args:
        ranker: whose presets are meant.
        checkpoint: folder, or name at the hub.
        preset, layers, max_query, max_document: options of the ranker; None: not given.

    Raises:
        BadInput: where one is out of its range, or the checkpoint's file is none of lengths.
    """
    given = {"max_query": max_query, "max_document": max_document}
    if None in given.values():
        own = read_lengths(checkpoint)
        given = {name: own.get(name) if value is None else value for name, value in given.items()}
    return ranker.resolve_preset(preset, layers=layers, **given)


def read_lengths(checkpoint: str) -> dict[str, int]:
    """The lengths that lie beside a checkpoint; none where it says nothing of them.

    Raises:
        BadInput: where its file is none of lengths.
    """
    local = Path(checkpoint).expanduser()
    said = read_json(str(local) if local.is_dir() else checkpoint, FILE)
    if said is None:
        return {}
    if not isinstance(said, dict) or set(said) != KEYS or not all(type(n) is int and n > 0 for n in said.values()):
        remedy = f'write {{"max_query": 32, "max_document": 256}}, or delete {FILE}'
        raise BadInput(f"{FILE} does not say two lengths", checkpoint, remedy)
    return said


def write_lengths(folder: str, max_query: int, max_document: int) -> None:
    """Write them there.

    Args:
        folder: of a checkpoint.
        max_query, max_document: subwords read of a text, those of prompts not counted.
    """
    write_json(Path(folder) / FILE, {"max_query": max_query, "max_document": max_document})
