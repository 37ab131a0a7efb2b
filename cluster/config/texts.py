"""Composes the configuration of texts that verbs share with runs."""

from __future__ import annotations

from typing import Any

from cluster.config.compose import compose
from cluster.config.groups import CHOICES

OF_TEXTS = ("collection", "vectors", "encoding", "strict", "cache")
"""Options that runs share with verbs that read a collection without training on it."""


def texts_config(config: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration of a run over the texts that another verb's options name, as its part `base`."""
    whole = compose([])
    chosen = whole[CHOICES] | {"collection": config[CHOICES]["collection"]}
    return whole | {key: config[key] for key in OF_TEXTS if key in config} | {CHOICES: chosen}
