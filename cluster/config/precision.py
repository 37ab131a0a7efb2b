"""Writes down the precision in which the transformers of a command compute, so that it is one on all machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyrite.cluster.config.override import replaced
from pyrite.ranking.precision import AUTO

OPTION = "precision"
"""The name of the option, of rankers and of functions that read texts."""
OF_VECTORS = "index.precision"
"""What keys end in whose precision is that of stored vectors."""


def with_precision(overrides: Sequence[str], config: Mapping[str, Any], precision: str) -> list[str]:
    """Return overrides that name the precision for each part that leaves the choice to the machine.

    Args:
        config: the configuration that they give.
        precision: what `pyrite.ranking.precision.best_precision` returned on a machine that does the work.
    """
    return replaced(list(overrides), [f"{key}={precision}" for key in automatic(config)])


def automatic(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys of the options that leave the precision to the machine."""
    return (key for key, value in _named(config) if value == AUTO)


def precision_lines(config: Mapping[str, Any]) -> list[str]:
    """Return a line for each precision in which transformers of a run compute, with the options that name it."""
    keys: dict[str, list[str]] = {}
    for key, value in _named(config):
        if not key.endswith(OF_VECTORS):
            keys.setdefault(value, []).append(key)
    return [f"transformers compute in {value} ({', '.join(names)})" for value, names in keys.items()]


def _named(config: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, str]]:
    """Yield the keys and values of the options of a precision that are set."""
    for key, value in config.items():
        if isinstance(value, dict):
            yield from _named(value, f"{at}{key}.")
        elif key == OPTION and value is not None:
            yield f"{at}{key}", value
