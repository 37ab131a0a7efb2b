"""Refuses classes that a folder names and the user did not: what is resumed may come from anywhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ranking.errors import BadInput

TRUSTED = ("cluster", "ranking", "sampling", "rl", "pooling", "torch.optim", "ray.tune.schedulers")
VARIABLE = "PYRITE_TRUST"
"""Environment variable with packages or modules of the user's, by commas, whose classes may be resumed with."""

_from_folder = ContextVar("from_folder", default=False)


@contextmanager
def from_folder(yes: bool = True) -> Iterator[None]:
    """Compose what comes from a folder, and not from the user's command line."""
    token = _from_folder.set(yes)
    try:
        yield
    finally:
        _from_folder.reset(token)


def check_classes(node: Any) -> None:
    """See that a composed configuration names no classes but our own and those that the user trusts.

    Raises:
        BadInput: where it does, and comes from a folder.
    """
    if _from_folder.get():
        _check(node, (*TRUSTED, *filter(None, os.environ.get(VARIABLE, "").split(","))))


def _check(node: Any, trusted: tuple[str, ...]) -> None:
    if isinstance(node, dict):
        named = node.get("_target_", trusted[0])
        if not any(f"{named}.".startswith(f"{each.strip()}.") for each in trusted):
            package = str(named).split(".")[0]
            remedy = f"if you know and trust it: {VARIABLE}={package} pyrite …"
            raise BadInput("the folder names a class that is not Pyrite's", str(named), remedy)
    for each in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        _check(each, trusted)
