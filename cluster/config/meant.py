"""Suggests what to write instead of a name that a group of options lacks: a part, a file or a class."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyrite.cluster.config.other_names import suggestion
from pyrite.cluster.config.other_parts import name_here
from pyrite.ranking.errors import BadInput
from pyrite.ranking.similar import OF_FILES, similar


def see(config: str) -> str:
    """Return the hint that points a user to the options of a primary file."""
    return "see `pyrite options`" if config in ("config", "study") else f"see `pyrite options --for {config}`"


def no_name(group: str, name: Any, known: Sequence[str], config: str = "config") -> BadInput:
    """Return the error for a name that a group does not have, with the one that is meant.

    >>> print(no_name("ranker", "colbert", ["late_interaction", "static"]))
    there is no ranker 'colbert'; there is late_interaction, static; did you mean late_interaction?

    Args:
        known: the names that the group has.
        config: the primary file of the verb.
    """
    instead = name_here(group, str(name))
    meant = instead if instead in known else OF_GROUP.get(group, _part)(str(name), known, config)
    of_user = "" if meant else yours(group, str(name))
    what = f"there is no {group} {name!r}; there is {', '.join(known)}{of_user}"
    return BadInput(what, remedy=f"did you mean {meant}?" if meant else see(config))


def _part(name: str, known: Sequence[str], config: str) -> str | None:
    """Return the part with a similar name."""
    return similar(name, known)


def _checkpoint(name: str, known: Sequence[str], config: str) -> str | None:
    """Return the options of a ranker that starts from a folder or from a model of a hub."""
    is_folder = "/" in name or os.path.exists(name)
    return suggestion(f"model={name}", config) if is_folder else similar(name, known)


def _file(name: str, known: Sequence[str], config: str) -> str | None:
    """Return the option that names the file or folder here with a similar name, unless a format is more like it."""
    found = similar(name, [*os.listdir(), *known], OF_FILES)
    return similar(name, known) if found in (None, *known) else f"collection.path={found}"


OF_GROUP: Mapping[str, Callable[[str, Sequence[str], str], str | None]] = {"collection": _file, "ranker": _checkpoint}
"""What a name of a group may mean; of others, the part with a similar name."""


def yours(group: str, name: str = "") -> str:
    """Return how a file or class of the user's own is named, as the end of a message."""
    return YOURS.get(group, _class)(group, name)


def _experiment(group: str, name: str) -> str:
    stem = name.removesuffix(".yaml")
    file = next(filter(os.path.isfile, (f"{stem}.yaml", f"{group}/{stem}.yaml")), f"{stem}.yaml")
    return f"; a file of yours is a word: `pyrite study {os.path.normpath(file)}`"


def _path(group: str, name: str) -> str:
    return "; a file or folder of yours is named by its path: collection.path=FILE"


def _class(group: str, name: str) -> str:
    return f"; to use a class of yours, add {group}._target_={name} to one" if "." in name else ""


YOURS: Mapping[str, Callable[[str, str], str]] = {"collection": _path, "experiment": _experiment}
"""How the user's own files and classes are named, by group; others are classes."""
