"""Refuses classes that a resumed folder names and the user does not trust, since a folder may come from anywhere."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

from pyrite.ranking.errors import BadInput

TRUSTED = ("cluster", "ranking", "sampling", "rl", "pooling", "torch.optim", "ray.tune.schedulers")
VARIABLE = "PYRITE_TRUST"
"""Environment variable with the packages or modules, separated by commas, that the user trusts."""

_from_folder = ContextVar("from_folder", default=False)
_given = ContextVar[tuple[str, ...]]("given", default=())


@contextmanager
def _within(variable: ContextVar[Any], value: Any) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def from_folder(yes: bool = True) -> AbstractContextManager[None]:
    """Mark what is composed within as read from a folder, not from the command line."""
    return _within(_from_folder, yes)


def trusting(classes: Iterable[str]) -> AbstractContextManager[None]:
    """Trust classes within, which the caller of Python has given as objects."""
    return _within(_given, (*_given.get(), *classes))


def check_classes(node: Any) -> None:
    """Refuse a configuration from a folder that names a class which is neither Pyrite's nor trusted by the user."""
    if not _from_folder.get():
        return
    trusted = (*TRUSTED, *_given.get(), *filter(None, os.environ.get(VARIABLE, "").split(",")))
    for named in _classes(node):
        if not any(f"{named}.".startswith(f"{each.strip()}.") for each in trusted):
            remedy = f"if you know and trust it: {VARIABLE}={named.split('.')[0]} pyrite …"
            raise BadInput("the folder names a class that is not Pyrite's", named, remedy)


def _classes(node: Any) -> Iterator[str]:
    if isinstance(node, dict) and "_target_" in node:
        yield str(node["_target_"])
    for each in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _classes(each)
