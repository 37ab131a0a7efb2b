"""Reads and writes the text lengths (max_query, max_document) that a checkpoint was trained with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ranking.errors import BadInput
from ranking.hub_tokenizers import local_root
from ranking.rankers.ranker import Ranker
from ranking.rankers.sentence_folder import SentenceFolder, read_json, write_json

FILE = "text_lengths.json"
"""A file of ours next to the checkpoint's: none of its fields has the length of a query."""
KEYS = {"max_query", "max_document"}


def resolve_widths(
    ranker: type[Ranker],
    checkpoint: str,
    preset: str,
    layers: int | None = None,
    max_query: int | None = None,
    max_document: int | None = None,
    source: SentenceFolder | None = None,
) -> dict[str, Any]:
    """Return layers and lengths: the options, or else those the checkpoint was trained with here, or else the preset's.

    A ranker that learned from short texts is worse at long ones, so the checkpoint's lengths come before a preset's.
    The limit of a folder of sentence-transformers replaces the lengths of the preset `paper`, and bounds those of the
    smaller presets.

    Args:
        ranker: the class with the presets.
        checkpoint: a folder, or a name at the hub.
        preset: the name of a preset.
        layers: an option of the ranker. None if not given.
        max_query: an option of the ranker. None if not given.
        max_document: an option of the ranker. None if not given.
        source: the description of the checkpoint's texts, if it may have one.

    Raises:
        BadInput: if an option is out of its range, or the checkpoint's file does not hold lengths.
    """
    given = {"max_query": max_query, "max_document": max_document}
    if None in given.values():
        trained, longest = ({}, {}) if source is None else source.lengths()
        trained = read_lengths(checkpoint) or trained
        of_preset = ranker.resolve_preset(preset)
        whole = preset == "paper" and source is not None and not source.plain
        limits = longest if whole else {name: min(length, of_preset[name]) for name, length in longest.items()}
        known = limits | trained
        given = {name: known.get(name) if value is None else value for name, value in given.items()}
    return ranker.resolve_preset(preset, layers=layers, **given)


def read_lengths(checkpoint: str) -> dict[str, int]:
    """Return the lengths in a checkpoint's folder; empty if there is no such file.

    Raises:
        BadInput: if its file does not hold lengths.
    """
    content = read_json(local_root(checkpoint), FILE)
    if content is None:
        return {}
    if (
        not isinstance(content, dict)
        or set(content) != KEYS
        or not all(type(number) is int and number > 0 for number in content.values())
    ):
        remedy = f'write {{"max_query": 32, "max_document": 256}}, or delete {FILE}'
        raise BadInput(f"{FILE} does not hold two lengths", checkpoint, remedy)
    return content


def write_lengths(folder: str, max_query: int, max_document: int) -> None:
    """Write the lengths into a checkpoint's folder.

    Args:
        folder: the checkpoint's folder.
        max_query: subwords read of a query, not counting prompts.
        max_document: subwords read of a document, not counting prompts.
    """
    write_json(Path(folder) / FILE, {"max_query": max_query, "max_document": max_document})
