"""Describes the layers and lengths to which options cut the checkpoints of a run, and the layers that they freeze."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

LAYERS = ("num_hidden_layers", "n_layers", "n_layer", "num_layers")
"""Names of the number of layers in `config.json`."""


def cut_of(config: Mapping[str, Any]) -> str:
    """Return what a configuration leaves of its checkpoints, as "2 of 6 layers, 64 subwords"; empty if they are whole.

    Args:
        config: the configuration of a run, a mining or a ranking.
    """
    return "; ".join(f"{name}{cut}" for name, cut in _cuts(config))


def _cuts(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what is left of the ranker's checkpoint, and of those of functions after their name."""
    ranker = config.get("ranker") or {}
    if cut := cut_of_node(ranker, ranker.get("checkpoint") or config.get("checkpoint")):
        yield "", cut
    for name, node in (config.get("function") or {}).items():
        if cut := cut_of_node(node, node.get("checkpoint")):
            yield f"{name} ", cut


def cut_of_node(options: Mapping[str, Any], checkpoint: Any) -> str:
    """Return what the options of a ranker or a function leave of a checkpoint; empty if it is whole."""
    if not isinstance(checkpoint, str):
        return ""
    layers, queries, documents = (options.get(name) for name in ("layers", "max_query", "max_document"))
    lengths = {
        (False, False): "",
        (False, True): f"{documents} subwords",
        (True, False): f"{queries} subwords of a query",
        (True, True): f"{queries} + {documents} subwords",
    }
    parts = ["" if layers is None else _layers(layers, checkpoint), lengths[queries is not None, documents is not None]]
    return ", ".join(filter(None, parts))


def _layers(layers: int, checkpoint: str) -> str:
    has = layers_of(checkpoint)
    return f"{layers} of {has} layers" if has else f"the first {layers} layers"


def only_cut(cut: str) -> str:
    """Return a line about what is left of a checkpoint (`cut_of`); empty if it is whole."""
    return f"of the checkpoint only {cut}" if cut else ""


def frozen_of(config: Mapping[str, Any]) -> str:
    """Return what a configuration freezes of its ranker's layers, as "4 of 6 layers frozen"; empty if it is nothing."""
    ranker = config.get("ranker") or {}
    frozen, has = ranker.get("frozen_layers"), ranker.get("layers") or layers_of(str(ranker.get("checkpoint")))
    return f"{frozen} of {has} layers frozen" if frozen else ""


def layers_of(checkpoint: str) -> int | None:
    """Return the number of layers of a checkpoint's transformer; None if its local files do not contain it."""
    root = Path(os.path.expanduser(checkpoint))
    for file in (root / "config.json", *sorted(root.glob("*/config.json"))):
        with suppress(OSError, ValueError, AttributeError):  # which the ranker reports
            content = json.loads(file.read_text("utf-8"))
            if known := [content[name] for name in LAYERS if isinstance(content.get(name), int)]:
                return int(known[0])
    return None
