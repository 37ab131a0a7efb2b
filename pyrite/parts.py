"""Turns objects into the overrides of a configuration: parts by name, and classes of the user's own.

>>> from pyrite import BM25, InBatch, SimANS
>>> print(*(InBatch() + BM25(1, pick=SimANS(a=2.0))).overrides()[1:])
function=[in_batch,bm25] negatives.bm25=1 selector=uniform selector.bm25=simans selector.bm25.a=2.0
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

from cluster.config.build import locate
from cluster.config.groups import NAMED_GROUPS, option
from ranking.bounds import check_arguments
from ranking.errors import BadInput

PLAIN = re.compile(r"[A-Za-z_./~@][\w./~@+:-]*")
"""A text that Hydra reads as it is written."""
WORDS = {"null", "true", "false", "nan", "inf"}
REPLACED = {"selector": "uniform", "policy": "random", "ranker": "static", "objective": "softmax"}
"""By group, the part without options that a class of the user's own replaces."""


class Part:
    """A part of a configuration, with some of its options.

    >>> from pyrite import SimANS
    >>> SimANS(a=2.0).overrides()
    ['selector=simans', 'selector.a=2.0']

    A subclass, as `class SimANS(Selector, name="simans")`, stands for one name of a group, and takes the options that
    `pyrite options GROUP=NAME` lists, by name or in their order. `Part.of` makes an object of a class of your own.

    Args:
        arguments: options in the order of the constructor.
        options: options by name.

    Raises:
        BadInput: if the part has no such option, or a value is outside its bounds.
    """

    group: str = ""
    name: str = ""
    target: str | None = None
    """The dotted path of the class, if it is not one that Pyrite has a name for."""

    def __init_subclass__(cls, name: str | None = None, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if name is not None:
            cls.name = name

    def __init__(self, *arguments: Any, **options: Any) -> None:
        known = self.defaults()
        if len(arguments) > len(known):
            raise BadInput(f"{type(self).__name__} takes {len(known)} options, not {len(arguments)}")
        self.options: dict[str, Any] = dict(zip(known, arguments, strict=False))
        for key, value in options.items():
            if key not in known:
                what = f"{type(self).__name__} has no option {key}"
                raise BadInput(what, remedy=f"choose one of {', '.join(known)}" if known else "leave it out")
            if key in self.options:
                raise BadInput(f"{type(self).__name__} was given {key} twice")
            self.options[key] = value
        node = self.node()
        if "_target_" in node:
            check_arguments(locate(node["_target_"]).__init__, self.options, type(self).__name__)  # type: ignore[misc]

    @classmethod
    def of(cls, group: str, thing: object) -> Part:
        """Return the part for an object or class of the user's own, or a part as it is.

        Args:
            group: the group that the part belongs to, as `selector`.
            thing: a `Part`, a class, or an object that keeps each argument of its constructor in an attribute of the
                same name.

        Raises:
            BadInput: if it is a part of another group, or an argument can't be read from the object.
        """
        if isinstance(thing, Part):
            if thing.group != group:
                raise BadInput(f"{thing!r} is a {thing.group}, not a {group}")
            return thing
        own = thing if isinstance(thing, type) else type(thing)
        if group == "ranker" and own is not thing and own.__module__.startswith("sentence_transformers."):
            from pyrite.rankers import of_model

            return of_model(thing)
        part = cls.__new__(cls)
        part.group, part.name = group, REPLACED.get(group, "")
        part.target = f"{own.__module__}.{own.__qualname__}"
        part.options = {} if isinstance(thing, type) else constructor_arguments(thing)
        return part

    @classmethod
    def node(cls) -> dict[str, Any]:
        """Return what the name stands for, with the defaults of its class."""
        content = option(cls.group, cls.name)
        return content[cls.name] if cls.group in NAMED_GROUPS and cls.name in content else content

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Return the options of the part with their defaults."""
        return {key: value for key, value in cls.node().items() if not key.startswith("_") and key != "defaults"}

    def overrides(self, at: str | None = None) -> list[str]:
        """Return the overrides that choose this part and set its options.

        Args:
            at: the key of the part, if it is not that of its group, as `selector.bm25`.
        """
        key = at or self.group
        if self.target is None:
            return [f"{key}={self.name}", *self.settings(key)]
        chosen = [f"{key}={self.name}"] if self.name else []
        return [*chosen, f"{key}._target_={self.target}", *self.settings(f"++{key}")]

    def settings(self, key: str) -> list[str]:
        """Return an override for each option that was given."""
        return [text for name, value in self.options.items() for text in override(f"{key}.{name}", value)]

    def __repr__(self) -> str:
        given = ", ".join(f"{key}={value!r}" for key, value in self.options.items())
        name = type(self).__name__ if self.target is None else self.target.rpartition(".")[2]
        return f"{name}({given})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Part) and self.overrides() == other.overrides()

    def __hash__(self) -> int:
        return hash(tuple(self.overrides()))


def constructor_arguments(thing: object) -> dict[str, Any]:
    """Return the arguments that an object was built with, from its attributes of the same names.

    Raises:
        BadInput: if an argument is kept in no attribute.
    """
    if type(thing).__init__ is object.__init__:
        return {}
    arguments = {}
    for name, parameter in inspect.signature(type(thing).__init__).parameters.items():
        if name == "self" or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if not hasattr(thing, name):
            where = type(thing).__name__
            raise BadInput(f"does not keep its argument {name}", where, f"set self.{name} = {name} in its constructor")
        arguments[name] = getattr(thing, name)
    return arguments


def override(key: str, value: Any) -> list[str]:
    """Return the overrides that set a key; a mapping sets each of its keys."""
    if isinstance(value, Mapping):
        return [text for name, inner in value.items() for text in override(f"{key}.{name}", inner)]
    return [f"{key}={written(value)}"]


def written(value: Any) -> str:
    """Return a value as Hydra's grammar writes it.

    >>> written([None, True, 0.5, "a b"])
    '[null,true,0.5,"a b"]'
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{written(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ",".join(map(written, value)) + "]"
    if isinstance(value, int | float):
        return repr(value)
    text = str(value)
    if PLAIN.fullmatch(text) and text.lower() not in WORDS:
        return text
    return '"' + re.sub(r'(\\*)"', r'\1\1\\"', text) + ("\\" if text.endswith("\\") else "") + '"'
