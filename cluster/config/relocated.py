"""Reads collections that were moved since a study began from their new place, under the names of its runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from pyrite.cluster.config.override import key_of, of_keys

KEY = "collection.path"
_moved = ContextVar[Mapping[str, str]]("moved", default=MappingProxyType({}))


@contextmanager
def relocated(moved: Mapping[str, str]) -> Iterator[None]:
    """Read collections from new paths within, by the old ones."""
    token = _moved.set({**_moved.get(), **moved})
    try:
        yield
    finally:
        _moved.reset(token)


def is_gone(path: str) -> bool:
    """Return whether a local path does not exist any more."""
    return "://" not in path and not path.startswith("hf:") and not os.path.exists(os.path.expanduser(path))


def new_path(path: str) -> str:
    """Return where a path is now."""
    return _moved.get().get(path, path)


def moves(recorded: Iterable[str], typed: Iterable[str]) -> dict[str, str]:
    """Return the new path of a collection by the old one, of which nothing is left there, if one is typed."""
    new = [_plain(text.partition("=")[2]) for text in of_keys(typed, {KEY})]
    pairs = [(key_of(text), _plain(text.partition("=")[2])) for text in recorded]
    named = {path for key, path in pairs if key == KEY or (key == "collection" and os.sep in path)}
    gone = {path for path in named if is_gone(path)}
    return {gone.pop(): new[0]} if len(new) == len(gone) == 1 else {}


def with_new_paths(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration that names the new path of its collection."""
    return _with_paths(config, _moved.get())


def with_old_paths(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with the path by which its runs are identified."""
    return _with_paths(config, {new: old for old, new in _moved.get().items()})


def _with_paths(config: Mapping[str, Any], paths: Mapping[str, str]) -> dict[str, Any]:
    collection = config.get("collection")
    if not isinstance(collection, Mapping) or collection.get("path") not in paths:
        return dict(config)
    return {**config, "collection": {**collection, "path": paths[collection["path"]]}}


def _plain(value: str) -> str:
    return value.strip("'\"")
