"""Keeps values of environment variables, and passwords in URLs, out of everything that is written.

An override such as `search_storage=${oc.env:DATABASE}` is used with the variable's value and written as it was typed.
`concealed` is applied by `Storage.write`, `EventLog.emit`, `write_table`, `write_config` and `Tracking`, through which
all content of an output folder and of trackers passes, except weights and a collection's texts and ids, which are
written as they are.
"""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, TypeVar

from pyrite.ranking.errors import BadInput

VARIABLE = re.compile(r"\$\{oc\.env:\s*(\w+)[^{}]*\}")
CREDENTIALS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)[^\s/@'\"<>]*:[^\s/'\"<>]*@")
TEXTS = (".yaml", ".json", ".jsonl", ".html", ".md", ".csv", ".txt", ".tex")
"""Ends of the names of files whose content is text."""
LEAST = 6
"""Letters of a value that is found within other text. A shorter one, as of N=4, is concealed where it is a whole value
of a configuration."""
Value = TypeVar("Value")
_typed: dict[str, str] = {}


def remember(overrides: Iterable[str]) -> None:
    """Keep what the variables that overrides name are typed as."""
    for found in chain.from_iterable(map(VARIABLE.finditer, overrides)):
        if value := os.environ.get(found[1]):
            _typed[value] = found[0]


def remembered() -> dict[str, str]:
    """Return what is typed for each value, for another process."""
    return dict(_typed)


def learn_from(typed: Mapping[str, str]) -> None:
    """Keep what `remembered` has returned in another process."""
    _typed.update(typed)


def concealed(text: str) -> str:
    """Return a text with each remembered value as it was typed, and without credentials in URLs."""
    for value in sorted(_typed, key=len, reverse=True):
        if len(value) >= LEAST:
            for form in dict.fromkeys((value, html.escape(value), json.dumps(value)[1:-1])):
                text = text.replace(form, _typed[value])
    return CREDENTIALS.sub(r"\1", text) if "://" in text else text


def concealed_in(content: Value, short: bool = True) -> Value:
    """Return nested mappings and lists with their texts concealed, keys such as names of files too.

    Args:
        short: whether a text that is a short value as a whole is concealed, as those of configurations are.
    """
    known = _typed if short else {}
    return _changed(content, lambda text, where: known.get(text) or concealed(text), concealed_key)


def _changed(content: Any, change: Callable[[str, str], str], change_key: Callable[[Any], Any], where: str = "") -> Any:
    """Return nested mappings and lists with their texts changed.

    Args:
        change: returns the new text, given a text and the key of its place.
        change_key: returns the new key of a mapping.
        where: the key of the place.
    """
    if isinstance(content, str):
        return change(content, where)
    if isinstance(content, Mapping):
        return {
            change_key(key): _changed(value, change, change_key, f"{where}.{key}".lstrip("."))
            for key, value in content.items()
        }
    if isinstance(content, list | tuple):
        return type(content)(_changed(value, change, change_key, where) for value in content)
    return content


def concealed_key(key: Value) -> Value:
    """Return a key of a mapping, with its text concealed if it is one."""
    return concealed(key) if isinstance(key, str) else key  # type: ignore[return-value]


def concealed_file(name: str, content: bytes) -> bytes:
    """Return the content of a file as it is written. Only files of texts change."""
    if not name.endswith(TEXTS) or not (_typed or b"://" in content):
        return content
    try:
        return concealed(content.decode()).encode()
    except UnicodeDecodeError:
        return content


def resolved_in(content: Value, where: str = "") -> Value:
    """Return nested mappings and lists in which each variable has its value again; one that is not set is refused."""
    return _changed(content, _resolved, lambda key: key, where)


def _resolved(text: str, where: str) -> str:
    remember([text])
    return VARIABLE.sub(lambda found: _value(found, where), text)


def _value(found: re.Match[str], where: str) -> str:
    default = re.fullmatch(r"[^,]*,\s*(.*)\}", found[0])
    value = os.environ.get(found[1], default[1] if default else None)
    if value is None:
        raise BadInput(f"the environment variable {found[1]} is not set", where, f"set {found[1]}")
    return value
