"""Reads the key of an override: that of `+selector.candidates=8` is `selector.candidates`, its root `selector`."""

from __future__ import annotations

from collections.abc import Sequence


def key_of(override: str) -> str:
    """Return the key of an override, without the signs that add or delete it."""
    return override.partition("=")[0].lstrip("+~")


def root_of(override: str) -> str:
    """Return the first part of an override's key: its option or group."""
    return key_of(override).partition(".")[0]


def values_by_key(overrides: Sequence[str]) -> dict[str, str]:
    """Return the values that overrides give, by key; those that delete a key give none."""
    return {key_of(text): text.partition("=")[2] for text in overrides if "=" in text and text[0] != "~"}


def replaced(overrides: Sequence[str], by: Sequence[str]) -> list[str]:
    """Return overrides after those with the same keys are replaced."""
    keys = set(map(key_of, by))
    return [*(text for text in overrides if key_of(text) not in keys), *by]
