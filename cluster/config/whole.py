"""Says whether an option takes whole numbers alone, by the type that its class or the schema declares."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from cluster.config.build import locate
from cluster.config.schema import Run


def takes_whole(config: Mapping[str, Any], key: str) -> bool:
    """Whether an option of a run takes whole numbers, and no others.

    Args:
        config: composed.
        key: of the option, as `sampling.negatives`.
    """
    node: Any = config
    declared: Any = Run
    for name in key.split("."):
        declared = _declared(node, declared, name)
        node = node.get(name) if isinstance(node, Mapping) else None
    named = _parts(declared)
    return int in named and float not in named


def _declared(node: Any, outer: Any, name: str) -> Any:
    """What is declared of a key of a mapping: by its class, where it is a part, or by the schema.

    Args:
        node: the mapping.
        outer: what is declared of it.
        name: of the key.
    """
    if isinstance(node, Mapping) and "_target_" in node:
        with suppress(NameError):  # of somebody's annotations
            return get_type_hints(locate(node["_target_"]).__init__).get(name)  # type: ignore[misc]
        return None
    for each in _parts(outer):
        if isinstance(each, type) and issubclass(each, BaseModel) and name in each.model_fields:
            return each.model_fields[name].annotation
    return get_args(outer)[1] if get_origin(outer) is dict else None


def _parts(declared: Any) -> list[Any]:
    """The types of a union, or the one that is declared."""
    inner = [part for each in get_args(declared) for part in _parts(each)]
    return inner or [declared]
