"""Writes down the precision in which the transformers of a command compute, so that it is one on all machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyrite.cluster.config.override import replaced
from pyrite.ranking.precision import AUTO

OPTION = "precision"
"""The name of the option, of rankers and of functions that read texts."""


def with_precision(overrides: Sequence[str], config: Mapping[str, Any], precision: str) -> list[str]:
    """Return overrides that name the precision for each part that leaves the choice to the machine.

    Args:
        config: the configuration that they give.
        precision: what `pyrite.ranking.precision.best_precision` returned on a machine that does the work.
    """
    return replaced(list(overrides), [f"{key}={precision}" for key in automatic(config)])


def automatic(config: Mapping[str, Any], at: str = "") -> Iterator[str]:
    """Yield the keys of the options that leave the precision to the machine."""
    for key, value in config.items():
        if isinstance(value, dict):
            yield from automatic(value, f"{at}{key}.")
        elif key == OPTION and value == AUTO:
            yield f"{at}{key}"
