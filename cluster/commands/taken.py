"""Declares the options of a command that composes no configuration, and divides those of others."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from pyrite.cluster.config.override import key_of, of_keys, root_of, values_by_key, without
from pyrite.ranking.errors import refuse


@dataclass(frozen=True)
class Taken:
    """The options that a command takes.

    Args:
        keys: their names.
        refusal: the message for another one; `{key}` and `{text}` are replaced by its name and the whole override.
        remedy: what to do about it.
    """

    keys: Sequence[str]
    refusal: str
    remedy: str

    def read(self, overrides: Sequence[str]) -> dict[str, str]:
        """Return the values that overrides give, by key."""
        for text in overrides:
            key = key_of(text)
            refuse(key not in self.keys, self.refusal.format(key=key, text=text), remedy=self.remedy)
        return values_by_key(overrides)


def divided(overrides: Sequence[str], keys: Container[str]) -> tuple[list[str], list[str]]:
    """Return the overrides of some options, or of groups of them, and the others."""
    return of_keys(overrides, keys, root_of), without(overrides, keys, root_of)
