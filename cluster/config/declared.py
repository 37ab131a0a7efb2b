"""Reads the defaults and explanations of a primary file's options, which `schema` declares."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel

from pyrite.cluster.config.groups import chosen_by_default
from pyrite.cluster.config.schema import SHAPES
from pyrite.cluster.config.signatures import MISSING

Key = tuple[str, ...]


@cache
def options_of(primary: str) -> dict[str, Any]:
    """Return the options of a primary file with their defaults; one without a default is `MISSING`.

    What the file chooses of a group is not among them.
    """
    shape, groups = SHAPES[primary], chosen_by_default(primary)
    values = dict.fromkeys(shape.model_fields, MISSING) | shape.model_construct().model_dump(by_alias=True)
    return {name: value for name, value in values.items() if name not in groups}


def fill_options(content: dict[str, Any], primary: str) -> None:
    """Add the declared options that files leave out, in place."""
    _fill(content, options_of(primary))


def _fill(content: dict[str, Any], declared: Mapping[str, Any]) -> None:
    for name, value in declared.items():
        known = content.setdefault(name, copy.deepcopy(value))
        if isinstance(value, dict) and isinstance(known, dict):
            _fill(known, value)


def absent(config: Mapping[str, Any], primary: str) -> str | None:
    """Return the first declared option that a configuration does not have, as after `~seed`; None if it has all."""
    return next((".".join(key) for key in _absent(config, options_of(primary))), None)


def _absent(config: Mapping[str, Any], declared: Mapping[str, Any], at: Key = ()) -> Iterator[Key]:
    for name, value in declared.items():
        if name not in config:
            yield (*at, name)
        elif isinstance(value, dict) and isinstance(config[name], Mapping) and "_target_" not in value:
            yield from _absent(config[name], value, (*at, name))


def explained(shape: type[BaseModel], at: Key = ()) -> Iterator[tuple[Key, str]]:
    """Yield the explanation of each option that a class declares, by its path."""
    for name, field in shape.model_fields.items():
        if field.description:
            text = field.description.replace("\n", " ").rstrip(".")
            yield (*at, name), re.sub(r"^[A-Z](?![A-Z])", lambda first: first[0].lower(), text)
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from explained(field.annotation, (*at, name))
