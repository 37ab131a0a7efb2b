"""Finds out whether an option takes only whole numbers, by the type that its class or the schema declares."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from pyrite.cluster.config.build import locate
from pyrite.cluster.config.schema import RunConfig


def takes_whole(config: Mapping[str, Any], key: str) -> bool:
    """Return whether an option of a run takes only whole numbers."""
    node: Any = config
    declared: Any = RunConfig
    for name in key.split("."):
        declared = _declared(node, declared, name)
        node = node.get(name) if isinstance(node, Mapping) else None
    named = _parts(declared)
    return int in named and float not in named


def _declared(node: Any, outer: Any, name: str) -> Any:
    """Return the declared type of a key of a mapping: by its class if it is a part, otherwise by the schema."""
    if isinstance(node, Mapping) and "_target_" in node:
        with suppress(NameError):  # in annotations of a user's class
            return get_type_hints(locate(node["_target_"]).__init__).get(name)  # type: ignore[misc]
        return None
    for each in _parts(outer):
        if isinstance(each, type) and issubclass(each, BaseModel) and name in each.model_fields:
            return each.model_fields[name].annotation
    return get_args(outer)[1] if get_origin(outer) is dict else None


def _parts(declared: Any) -> list[Any]:
    inner = [part for each in get_args(declared) for part in _parts(each)]
    return inner or [declared]
