"""Refuses classes that a resumed folder names and the user does not trust, since a folder may come from anywhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ranking.errors import BadInput

TRUSTED = ("cluster", "ranking", "sampling", "rl", "pooling", "torch.optim", "ray.tune.schedulers")
VARIABLE = "PYRITE_TRUST"
"""Environment variable with the packages or modules, separated by commas, that the user trusts."""

_from_folder = ContextVar("from_folder", default=False)


@contextmanager
def from_folder(yes: bool = True) -> Iterator[None]:
    """Mark what is composed within as read from a folder, not from the command line."""
    token = _from_folder.set(yes)
    try:
        yield
    finally:
        _from_folder.reset(token)


def check_classes(node: Any) -> None:
    """Check that a configuration from a folder names only classes of Pyrite and those that the user trusts.

    Raises:
        BadInput: if it names another class.
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
