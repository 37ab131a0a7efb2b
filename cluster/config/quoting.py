"""Quotes overrides: values of path options that users type, and values that Pyrite prints for copying."""

from __future__ import annotations

import functools
import operator
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from pyrite.cluster.config.aliases import QUOTES, as_override
from pyrite.cluster.config.groups import CHOICES, NAMED_GROUPS
from pyrite.ranking.errors import refuse

PATHS = frozenset({
    "cache", "checkpoint", "data", "evaluate", "folder", "gold", "judgements", "machine", "out", "owners", "path",
    "pools", "qrels", "relabel", "run", "runs", "search_storage", "storage", "studies", "texts",
})  # fmt: skip
"""Last parts of the keys of options whose values are paths or URIs."""
PATHS_OR_NUMBERS = frozenset({"budget", "documents", "groups", "queries", "topics"})
"""The same, of options whose values may also be numbers."""
SINGLE = ("out", "cache", "run")
"""Path options that are never swept, so that a comma belongs to the path."""
PLAIN = re.compile(r"[\w./\\+%@:$?|*-]+", re.ASCII)
"""Values that Hydra reads as text without quotes, if they are neither numbers nor one of WORDS."""
NUMBER = re.compile(r"[-+]?[\d_]*\.?[\d_]*(e[-+]?\d+)?|[-+]?(inf|nan)", re.ASCII | re.IGNORECASE)
FOREIGN = re.compile(r"[^\s\[\]{},:=()][^\[\]{},:=()]*")
"""Texts within lists, mappings and sweeps."""
WORDS = re.compile(r"true|false|null|none", re.IGNORECASE)
AS_IT_IS = re.compile(r"(null)?\Z|['\"]|[\[{]|\w+\(|.*\$\{", re.ASCII)
"""What is no bare path: nothing, null, and the beginnings of quotes, lists, mappings, sweeps and interpolations."""
NO_PATH = {
    **dict.fromkeys(PATHS, AS_IT_IS),
    **dict.fromkeys(PATHS_OR_NUMBERS, re.compile(rf"{AS_IT_IS.pattern}|(?i:{NUMBER.pattern})\Z", re.ASCII)),
}
"""What is no bare path, by the last part of the key."""


def quoted_path(override: str) -> str:
    """Return an override with the value of a path option in quotes if Hydra would not read it as text.

    `~` at the start of a path is expanded, because shells leave it alone in `out=~/x`. Values that are quoted already,
    lists, sweeps such as `choice(a,b)`, and values with `${…}` are left alone. Several paths of a sweep are quoted one
    by one, unless a path with commas exists. An empty path is refused. Words of other options that are not of ASCII,
    such as names of columns, are quoted too.

    Example:
        >>> quoted_path("out=résultats"), quoted_path("out=20241125"), quoted_path("out=runs/a")
        ("out='résultats'", "out='20241125'", 'out=runs/a')
        >>> quoted_path("seed=3"), quoted_path("collection.path=a,b c")
        ('seed=3', 'collection.path=a,b c')
        >>> quoted_path("relabel=null,2024"), quoted_path("relabel=null")
        ("relabel=null,'2024'", 'relabel=null')
        >>> quoted_path("collection.negatives=[négatif 1,b]"), quoted_path("collection.query=Größe (cm)")
        ("collection.negatives=['négatif 1',b]", "collection.query='Größe (cm)'")
    """
    key, equals, value = override.partition("=")
    name = key.rpartition(".")[2].lstrip("+~")
    empty = equals and not value.strip().strip(QUOTES)  # for example a shell variable that is not set
    refuse(empty and name in PATHS, "is empty", key, "name a file or folder, or leave it out")
    no_path = NO_PATH.get(name)
    if no_path is None and not value.isascii() and not set(QUOTES) & set(value) and "${" not in value:
        within = re.match(r"[\[{]|\w+\(", value, re.ASCII)
        return f"{key}={FOREIGN.sub(_as_word, value) if within or ',' in value else as_override(value)}"
    if no_path is None or key.startswith("~") or no_path.match(value):
        return override
    if key.lstrip("+") in SINGLE or os.path.lexists(os.path.expanduser(value)):
        return f"{key}={quoted(value)}"
    return f"{key}={','.join(item if item == 'null' else quoted(item, ' ') for item in value.split(','))}"


def _as_word(found: re.Match[str]) -> str:
    """Return a text as Hydra reads it: in quotes if it is not of ASCII."""
    return found[0] if found[0].isascii() else as_override(found[0].rstrip())


def quoted(value: str, allowed: str = "") -> str:
    """Return a path as Hydra reads it as text; `allowed` are further characters that need no quotes.

    Raises:
        BadInput: if it begins with `~` and a name that no user has.
    """
    path = os.path.expanduser(value)
    user = re.match(r"~[^/]*", path)
    refuse(user, f"there is no user {user and user[0][1:]!r}", value, f"a folder that is called so is ./{value}")
    bare = PLAIN.fullmatch("".join(sign for sign in path if sign not in allowed)) and path == path.strip()
    return path if bare and not NUMBER.fullmatch(path) and not WORDS.fullmatch(path) else as_override(path)


def override_of(key: str, value: Any) -> str:
    """Return the override that sets a key to a value, as short as Hydra reads it back.

    Example:
        >>> override_of("renew_every", None), override_of("out", "a,b"), override_of("baseline", "selector=top")
        ('renew_every=null', "out='a,b'", "baseline='selector=top'")
        >>> override_of("seeds", 8), override_of("out", "outputs/x")
        ('seeds=8', 'out=outputs/x')
    """
    return f"{key}={quoted(value) if isinstance(value, str) and not value.startswith('~') else as_override(value)}"


def several(names: Sequence[str]) -> str:
    """Return the value that chooses names of a group, of which several can be chosen."""
    return names[0] if len(names) == 1 else f"[{','.join(names)}]"


def option_value(config: Mapping[str, Any], key: str) -> str | None:
    """Return the value of an option in a composed configuration, as an override has it; None if there is none.

    Of a group it is the chosen name, or the chosen names.
    """
    choices = config[CHOICES]
    if key in NAMED_GROUPS and isinstance(config.get(key), Mapping):
        return several(list(config[key]))
    if key in choices:
        return "null" if choices[key] is None else str(choices[key])
    with suppress(KeyError, TypeError):  # there is no such option
        return override_of(key, functools.reduce(operator.getitem, key.split("."), config)).partition("=")[2]
    return None
