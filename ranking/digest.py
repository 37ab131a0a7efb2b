"""Names content by its digest, for caches and files."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from pyrite.ranking.adapter_folder import folders_of
from pyrite.ranking.errors import BadInput

NO_TOKENS = frozenset(
    (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx", ".npz", ".npy", ".gguf", ".ot", ".md")
)
"""Endings of the files of a checkpoint that say nothing of its tokens."""


def digest(content: Any) -> str:
    """Return 16 hex digits that identify a JSON value."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def contents(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Return a digest of each file's content; raise BadInput if one can't be read."""
    found = []
    for path in paths:
        try:
            stat = os.stat(path)
            found.append(_content(str(path), stat.st_size, stat.st_mtime_ns))
        except OSError as error:
            raise BadInput("can't be read", error.filename, "is the path right?") from None
    return found


@cache
def _content(path: str, size: int, changed: int) -> str:
    """Read a file once per process, unless it changes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:32]


def texts_read_by(folder: Path) -> list[list[str]]:
    """Return the name and a digest of each file of a checkpoint's folder that may decide its tokens.

    Vocabularies have many forms (merges.txt, vocab.json, spiece.model), so these are all but weights and READMEs.
    """
    files = (file for file in folder.glob("[!.]*") if file.is_file() and file.suffix not in NO_TOKENS)
    return [[file.name, *contents([file])] for file in sorted(files)]


def files_of(node: dict[str, Any]) -> list[str]:
    """Return digests of the files that an option names: those of its path or else of its checkpoint.

    A checkpoint may be a file, a folder with the files of a checkpoint or a run, or a name at the hub, which has none.
    An adapter has those of its base model too.
    """
    paths = node.get("path") or []
    if not paths and (checkpoint := node.get("checkpoint")):
        place = Path(os.path.expanduser(checkpoint))
        # A run has its weights in `weights`, and sentence-transformers has modules as `1_Pooling` and `2_Dense`.
        patterns = ("*.*", "weights/**/*.*", "*_*/**/*.*")
        parts = (file for folder in folders_of(place) for pattern in patterns for file in folder.glob(pattern))
        files = [place] if place.is_file() else [*parts]
        paths = sorted(str(file) for file in files if file.is_file())
    return contents([paths] if isinstance(paths, str) else paths)


def checkpoints_of(node: Any) -> list[str]:
    """Return digests of the files of all checkpoints in a piece of configuration."""
    if not isinstance(node, dict):
        return []
    digests = files_of({"checkpoint": node.get("checkpoint")})
    return [*digests, *(digest for value in node.values() for digest in checkpoints_of(value))]
