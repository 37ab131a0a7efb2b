"""Finds adapters of peft in folders, and the folders of their base models."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from pyrite.ranking.errors import BadInput, refuse

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


def is_adapter(folder: Path) -> bool:
    """Return whether a folder holds an adapter, and not the weights of a whole model."""
    return (folder / CONFIG).is_file() and not (folder / "model.safetensors").is_file()


def folders_of(checkpoint: Path) -> list[Path]:
    """Return the folders whose files decide a checkpoint's weights: the checkpoint and, for an adapter, its base model.

    A base model at the hub has no folder here: its name decides.
    """
    base = local_base(checkpoint, config_of(checkpoint)) if is_adapter(checkpoint) else None
    return [checkpoint, *filter(None, [base])]


def config_of(folder: Path) -> dict[str, Any]:
    """Return the configuration of an adapter; raise BadInput if it names no base model, or has no safetensors."""
    try:
        config = json.loads((folder / CONFIG).read_text("utf-8"))
        config["base_model_name_or_path"] + ""
    except (ValueError, KeyError, TypeError):
        remedy = "merge the adapter into its base model (merge_and_unload of peft), and save that"
        raise BadInput(f"its {CONFIG} names no base model", folder, remedy) from None
    remedy = "save it again with peft, as safetensors; pickles are not read"
    refuse(not (folder / WEIGHTS).is_file(), f"has no {WEIGHTS}", folder, remedy)
    return dict(config)


def local_base(folder: Path, config: dict[str, Any]) -> Path | None:
    """Return the folder of an adapter's base model: at its path, or next to the adapter."""
    name = config["base_model_name_or_path"]
    places = [Path(os.path.expanduser(name)), folder / name, folder.parent / name, folder.parent / Path(name).name]
    return next((place.resolve() for place in places if place.is_dir() and place.resolve() != folder.resolve()), None)
