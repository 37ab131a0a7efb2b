"""Reads the tokenizers of checkpoints, from a folder or the hub."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyrite.ranking.adapter_folder import is_adapter
from pyrite.ranking.adapters import merged_adapter
from pyrite.ranking.collections.opened import compression_of
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.hub import prepare_hub
from pyrite.ranking.lazy import safetensors, tokenizers, transformers

HEADS = ("config.json", "modules.json")
"""Files of which each checkpoint has one."""
WITHIN = tuple(f"{folder}/{name}" for folder in ("*", "weights/*") for name in HEADS)
"""The files of the checkpoints within a folder, such as that of a training, which has one folder per run."""


def local_root(checkpoint: str) -> str:
    """Return the path of a checkpoint's folder, or its name if it is at the hub.

    The folder of an adapter is that of its base model with the adapter merged into it.
    """
    folder = Path(os.path.expanduser(checkpoint))
    if is_adapter(folder):
        return str(merged_adapter(folder))
    return str(folder) if folder.is_dir() else checkpoint


def read_tokenizer(checkpoint: str) -> Any:
    """Read the tokenizer of a checkpoint.

    Raises:
        BadInput: if there is none.
    """
    with refused(checkpoint):
        tokenizer = transformers.AutoTokenizer.from_pretrained(local_root(checkpoint), trust_remote_code=False)
    # Without files it is built from the architecture alone.
    is_empty = len(tokenizer) <= len(tokenizer.all_special_ids)
    refuse(is_empty, "has no vocabulary", checkpoint, "the folder needs tokenizer.json or vocab.txt")
    _lower(tokenizer, local_root(checkpoint))
    return tokenizer


def _lower(tokenizer: Any, root: str) -> None:
    """Make the tokenizer lower case if a file of sentence-transformers next to it requires it."""
    file = transformers.utils.cached_file(
        root, "sentence_bert_config.json", _raise_exceptions_for_missing_entries=False
    )
    if file is None or not json.loads(Path(file).read_text("utf-8")).get("do_lower_case"):
        return
    inner, normalizers = tokenizer.backend_tokenizer, tokenizers.normalizers
    inner.normalizer = normalizers.Sequence([normalizers.Lowercase(), *filter(None, [inner.normalizer])])


def _remedy(folder: Path) -> str:
    if any(folder.glob("*.bin")) and not any(folder.glob("*.safetensors")):
        return "pickles are not read: save it again with save_pretrained, which writes model.safetensors"
    return "a folder needs config.json, model.safetensors and the tokenizer's files"


@contextmanager
def refused(checkpoint: str) -> Iterator[None]:
    """A context that turns the errors of transformers for an unreadable checkpoint into one line."""
    folder = Path(os.path.expanduser(checkpoint))
    if not folder.is_dir():
        prepare_hub()
    try:
        yield
    except (
        OSError, ValueError, KeyError, RuntimeError, TypeError, AttributeError, ImportError,
        safetensors.SafetensorError,
    ) as error:  # fmt: skip
        raise _unreadable(checkpoint, folder, error) from None


def _unreadable(checkpoint: str, folder: Path, error: Exception) -> BadInput:
    """Return what is wrong with a checkpoint that caused an error."""
    if not folder.is_dir():
        what = "is no folder here, and the hub has no checkpoint of that name, or can't be reached"
        remedy = (
            "name a local folder with config.json, model.safetensors and tokenizer.json, as ranker.checkpoint=FOLDER"
        )
        return BadInput(what, checkpoint, remedy)
    within = {str(file.parent.relative_to(folder)) for pattern in WITHIN for file in folder.glob(pattern)}
    if within and not any((folder / name).is_file() for name in HEADS):
        what = f"is a folder of {len(within)} checkpoint{'s' if len(within) > 1 else ''}, not one itself"
        return BadInput(what, checkpoint, f"name {folder.name}/{min(within)}")
    for weights in folder.rglob("*.safetensors"):
        compression_of(weights)  # refuses what is only a pointer to the file
    line = next(filter(None, map(str.strip, str(error).splitlines())), type(error).__name__)
    return BadInput(f"holds no checkpoint that can be read ({line})", checkpoint, _remedy(folder))
