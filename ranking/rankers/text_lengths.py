"""Reads and writes the text lengths (max_query, max_document) that a checkpoint was trained with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ranking.errors import BadInput
from ranking.hub_tokenizers import local_root
from ranking.rankers.pretrained import quiet
from ranking.rankers.sentence_folder import read_json, write_json

FILE = "text_lengths.json"
"""A file of ours next to the checkpoint's: none of its fields has the length of a query."""
KEYS = {"max_query", "max_document"}


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


def save_with_lengths(folder: str, model: Any, tokenizer: Any, max_query: int, max_document: int) -> None:
    """Write a model of transformers and its tokenizer into a folder, with the lengths of its texts.

    Args:
        model: the model, written as safetensors.
        max_query: subwords read of a query, not counting prompts.
        max_document: subwords read of a document, not counting prompts.
    """
    with quiet():
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    write_json(Path(folder) / FILE, {"max_query": max_query, "max_document": max_document})
