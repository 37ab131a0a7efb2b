"""Reads the key of an override: that of `+selector.candidates=8` is `selector.candidates`, its root `selector`."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Sequence


def key_of(override: str) -> str:
    """Return the key of an override, without the signs that add or delete it."""
    return override.partition("=")[0].lstrip("+~")


def root_of(override: str) -> str:
    """Return the first part of an override's key: its option or group."""
    return key_of(override).partition(".")[0]


def unquoted(value: str) -> str:
    r"""Return a value without Hydra's quotes.

    >>> unquoted(r"'John\'s data'")
    "John's data"
    """
    within = re.fullmatch(r"(['\"])(.*)\1", value, re.DOTALL)
    if within is None:
        return value
    return re.sub(rf"(\\+)({within[1]}|\Z)", lambda found: len(found[1]) // 2 * "\\" + found[2], within[2])


def of_keys(overrides: Iterable[str], keys: Container[str], part: Callable[[str], str] = key_of) -> list[str]:
    """Return the overrides of some keys; with `root_of`, those of some options or groups."""
    return [text for text in overrides if part(text) in keys]


def without(overrides: Iterable[str], keys: Container[str], part: Callable[[str], str] = key_of) -> list[str]:
    """Return the overrides of other keys than some; with `root_of`, of other options and groups."""
    return [text for text in overrides if part(text) not in keys]


def beneath(overrides: Iterable[str], keys: Iterable[str]) -> list[str]:
    """Return the overrides of some keys and of all keys below them."""
    outer = list(keys)
    return [text for text in overrides if is_within(key_of(text), outer)]


def is_within(key: str, outer: Iterable[str]) -> bool:
    """Return whether a key is one of some, or below one of them."""
    return f"{key}.".startswith(tuple(f"{each}." for each in outer))


def values_by_key(overrides: Sequence[str]) -> dict[str, str]:
    """Return the values that overrides give, by key; those that delete a key give none."""
    return {key_of(text): text.partition("=")[2] for text in overrides if "=" in text and text[0] != "~"}


def replaced(overrides: Sequence[str], by: Sequence[str]) -> list[str]:
    """Return overrides after those with the same keys are replaced."""
    return [*without(overrides, set(map(key_of, by))), *by]
