"""Finds out what an option takes, whole numbers or a list, by the type that its class or the schema declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from typing import Any, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from pyrite.cluster.config.build import locate
from pyrite.cluster.config.schema import SHAPES

LISTS: frozenset[Any] = frozenset({list, tuple, Sequence})


def takes_whole(config: Mapping[str, Any], key: str) -> bool:
    """Return whether an option of a run takes only whole numbers."""
    return takes("config", config, key, {int}) and not takes("config", config, key, {float})


def takes(primary: str, config: Mapping[str, Any], key: str, kinds: Set[Any]) -> bool:
    """Return whether an option takes values of one of the types, by what its class or the schema declares."""
    node: Any = config
    declared: Any = SHAPES[primary]
    for name in key.split("."):
        declared = _declared(node, declared, name)
        node = node.get(name) if isinstance(node, Mapping) else None
    return not kinds.isdisjoint(_parts(declared))


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
    """Return the types of which a type is made, as `[list, int]` of `list[int] | None`."""
    return [get_origin(declared) or declared, *(part for each in get_args(declared) for part in _parts(each))]
