"""Finds values and parts in nested mappings and lists, as in a composed configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def nodes(content: Any) -> Iterator[Any]:
    """Yield a value, and all that is nested in it, the outer before the inner."""
    yield content
    match content:
        case Mapping():
            inner = list(content.values())
        case list() | tuple():
            inner = list(content)
        case _:
            inner = []
    for each in inner:
        yield from nodes(each)


def parts_within(content: Any) -> Iterator[dict[str, Any]]:
    """Yield the descriptions of parts in a value: the mappings that name a class by `_target_`."""
    return (node for node in nodes(content) if isinstance(node, dict) and "_target_" in node)


def leaves(content: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts in nested mappings, each with the keys of its place, joined by points."""
    if isinstance(content, Mapping):
        for name, value in content.items():
            yield from leaves(value, f"{key}.{name}".lstrip("."))
    elif isinstance(content, str):
        yield key, content
