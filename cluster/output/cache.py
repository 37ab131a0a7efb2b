"""Finds the cache, which keeps collections and parts that are made once for all runs: a folder, or a URI behind one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cluster.output.storage import Storage
from ranking.backing import backed
from ranking.collections.cache import default_cache
from ranking.digest import digest


@dataclass(frozen=True)
class Remote:
    """A cache behind a folder of this machine: what is not there is fetched, and what is made is published.

    Args:
        uri: of any file system that `Storage` opens.
    """

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
    """Opened when it is first asked, by each process for itself."""
    return Storage(uri, "cache")


def cache_of(config: Mapping[str, Any]) -> Path:
    """The folder of what is made once: as the configuration has it, this user's, or the one before a URI."""
    place = config["cache"]
    if place and "://" in place:
        return backed(Remote(place.rstrip("/")))
    return Path(place) if place else default_cache()


def machine_folder(config: Mapping[str, Any]) -> Path:
    """The cache's folder for what each machine keeps for itself: nothing in it is fetched or published."""
    return Path(str(cache_of(config).absolute()))
