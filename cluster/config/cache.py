"""Finds the cache folder, which keeps collections and parts that are made once for all runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ranking.collections.cache import default_cache
from ranking.errors import BadInput


def cache_of(config: Mapping[str, Any]) -> Path:
    """The folder of what is made once, for this user or as the configuration has it.

    Raises:
        BadInput: if it is a URI, which as a path would be a folder named `s3:` in the working folder.
    """
    if config["cache"] and "://" in config["cache"]:
        remedy = "name a folder, for several machines one that all of them see; out= may be a URI"
        raise BadInput("a cache can't be a URI", f"cache={config['cache']}", remedy)
    return Path(config["cache"]) if config["cache"] else default_cache()
