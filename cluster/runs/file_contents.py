"""Computes digests of the files that options name, so that changed files are noticed."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from cluster.output.provenance import contents
from ranking.errors import BadInput


def content_of(path: str | None) -> str | None:
    """Return the SHA-256 of a file; None if there is no file."""
    if path is None:
        return None
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        raise BadInput(f"can't be read ({error.strerror})", path) from None


def checkpoint_files(checkpoint: str | None) -> list[str]:
    """Return the files of a checkpoint's folder; none for a name at the hub, or without a checkpoint."""
    folder = Path(checkpoint or "").expanduser()
    if checkpoint and folder.is_file():
        return [str(folder)]
    files = [*folder.glob("*.*"), *folder.glob("weights/**/*.*")] if checkpoint and folder.is_dir() else []
    return sorted(str(file) for file in files if file.is_file())


def files_of(node: dict[str, Any]) -> list[str]:
    """Return digests of the files that an option names."""
    paths = node.get("path") or checkpoint_files(node.get("checkpoint"))
    return contents([paths] if isinstance(paths, str) else paths)


def checkpoints_of(node: Any) -> list[str]:
    """Return digests of the files of all checkpoints in a piece of configuration."""
    if not isinstance(node, dict):
        return []
    digests = files_of({"checkpoint": node.get("checkpoint")})
    return [*digests, *(digest for value in node.values() for digest in checkpoints_of(value))]
