"""Finds the cache, which keeps collections and parts that all runs share: a folder, with or without a URI behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pyrite.cluster.output.storage import Storage
from pyrite.ranking.backing import backed
from pyrite.ranking.collections.cache import default_cache
from pyrite.ranking.digest import digest


@dataclass(frozen=True)
class RemoteCache:
    """A remote cache behind a local folder: missing files are fetched, and new ones are uploaded."""

    uri: str

    @property
    def folder(self) -> Path:
        return default_cache() / "remote" / digest(self.uri)

    def fetch(self, name: str, file: Path) -> bool:
        return _storage(self.uri).download(name, file)

    def publish(self, file: Path, name: str) -> None:
        _storage(self.uri).upload(file, name)

    def withdraw(self, name: str) -> None:
        _storage(self.uri).delete(name)

    def shown(self, name: str) -> str:
        return f"{self.uri}/{name}"


@cache
def _storage(uri: str) -> Storage:
    return Storage(uri, "cache")


def cache_of(config: Mapping[str, Any]) -> Path:
    """Return the cache's folder: the configured one, the user's default, or the local folder of a URI."""
    place = config["cache"]
    if place and "://" in place:
        return backed(RemoteCache(place.rstrip("/")))
    return Path(place) if place else default_cache()


def machine_folder(config: Mapping[str, Any]) -> Path:
    """Return the cache's folder for files that stay on this machine; nothing in it is fetched or uploaded."""
    return Path(str(cache_of(config).absolute()))
