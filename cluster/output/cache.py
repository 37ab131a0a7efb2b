"""Finds the cache, the folder of collections and parts that all runs share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyrite.ranking.collections.cache import cache_folder


def cache_of(config: Mapping[str, Any]) -> Path:
    """Return the cache's folder: the configured one, or the user's default."""
    return cache_folder(config["cache"])
