"""Computes digests of the files that options name, so that changed files are noticed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cluster.output.provenance import contents


def files_of(node: dict[str, Any]) -> list[str]:
    """Return digests of the files that an option names: those of its path or else of its checkpoint.

    A checkpoint may be a file, a folder with the files of a checkpoint or a run, or a name at the hub, which has none.
    """
    paths = node.get("path") or []
    if not paths and (checkpoint := node.get("checkpoint")):
        place = Path(checkpoint).expanduser()
        files = [place] if place.is_file() else [*place.glob("*.*"), *place.glob("weights/**/*.*")]
        paths = sorted(str(file) for file in files if file.is_file())
    return contents([paths] if isinstance(paths, str) else paths)


def checkpoints_of(node: Any) -> list[str]:
    """Return digests of the files of all checkpoints in a piece of configuration."""
    if not isinstance(node, dict):
        return []
    digests = files_of({"checkpoint": node.get("checkpoint")})
    return [*digests, *(digest for value in node.values() for digest in checkpoints_of(value))]
