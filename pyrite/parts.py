"""Turns objects into the overrides of a configuration: parts by name, and classes of the user's own.

>>> from pyrite import BM25, InBatch, SimANS
>>> print(*(InBatch() + BM25(1, pick=SimANS(a=2.0))).overrides()[1:])
function=[in_batch,bm25] negatives.bm25=1 selector=uniform selector.bm25=simans selector.bm25.a=2.0
"""

from __future__ import annotations

import inspect
import math
import os
import re
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, Self, cast

from pyrite.cluster.config.build import locate
from pyrite.cluster.config.groups import NAMED_GROUPS, option
from pyrite.cluster.config.parts import BASES, OURS
from pyrite.ranking.bounds import check_arguments
from pyrite.ranking.errors import BadInput

PLAIN = re.compile(r"[A-Za-z_./~@][\w./~@+:-]*")
"""A text that Hydra reads as it is written."""
MOST_NUMBERS = 2000
"""The longest array that is written as an option. Hydra reads some thousand numbers per second, for every run again."""
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
    def of(cls, group: str, thing: object) -> Self:
        """Return the part for an object or class of the user's own, or a part as it is.

        Args:
            group: the group that the part belongs to, as `selector`.
            thing: a `Part`, a class, or an object that keeps each argument of its constructor in an attribute of the
                same name.

        Raises:
            BadInput: if it is no part of this group, its class can't be imported, or an argument can't be read from
                the object.
        """
        if isinstance(thing, type) and issubclass(thing, Part):
            thing = thing()
        if isinstance(thing, Part):
            if thing.group != group:
                raise BadInput(f"{thing!r} is a {thing.group}, not a {group}")
            return cast("Self", thing)
        own = thing if isinstance(thing, type) else type(thing)
        if group == "ranker" and own is not thing and own.__module__.startswith("sentence_transformers."):
            from pyrite.rankers import of_model

            return cast("Self", of_model(thing))
        if own.__module__ == "builtins" or (group in BASES and not issubclass(own, locate(BASES[group]))):
            base = f" that subclasses {BASES[group]}" if group in BASES else ""
            remedy = f"give one of pyrite's, or an object or class of your own{base}"
            raise BadInput(f"{thing!r} is no {'retrieval ' * (group == 'function')}{group}", remedy=remedy)
        if own.__qualname__ != own.__name__:
            what = "is defined inside a function or class, where no run can import it"
            raise BadInput(what, own.__qualname__, "define it at the top level of a module, script or cell")
        part = cls.__new__(cls)
        part.group, part.name = group, REPLACED.get(group, "")
        part.target = f"{own.__module__}.{own.__qualname__}"
        given = ("vectors", "generator") if group == "ranker" else ()
        part.options = {} if isinstance(thing, type) else constructor_arguments(thing, given)
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
        return [*chosen, f"{key}._target_={self.target}", *self._own_options(f"++{key}")]

    def under(self, key: str) -> list[str]:
        """Return the overrides of the options of a part that has a key, or those that add a class of the user's own."""
        if self.target is None:
            return self.settings(key)
        return [f"+{key}._target_={self.target}", *self._own_options(f"+{key}")]

    def _own_options(self, key: str) -> list[str]:
        """Return an override for each argument of a class of the user's own; a mapping is one value."""
        return [f"{key}.{name}={written(value, name)}" for name, value in self.options.items()]

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


IN = " in its constructor"
STARS = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def constructor_arguments(thing: object, given: Sequence[str] = ()) -> dict[str, Any]:
    """Return the arguments that an object was built with, from its attributes of the same names.

    Args:
        given: arguments that a run supplies, which are left out.

    Raises:
        BadInput: if an argument is kept in no attribute, or is changed there.
    """
    own = type(thing)
    if own.__init__ is object.__init__:
        return {}
    arguments = {}
    for name, parameter in list(inspect.signature(own.__init__).parameters.items())[1:]:
        if name in given:
            continue
        if parameter.kind in STARS:
            raise BadInput(f"takes any arguments, by {STARS[parameter.kind]}{name}", own.__name__, "name each of them")
        if not hasattr(thing, name):
            raise BadInput(f"does not keep its argument {name}", own.__name__, f"set self.{name} = {name}{IN}")
        arguments[name] = getattr(thing, name)
    again = own(**arguments, **{name: getattr(thing, name, None) for name in given})
    for name, value in arguments.items():
        if written(getattr(again, name), name) != written(value, name):
            remedy = f"set self.{name} = {name}{IN}, and keep what is made of it in another attribute"
            raise BadInput(f"changes its argument {name}", own.__name__, remedy)
    return arguments


def path_text(place: str | os.PathLike[str], where: str | None, remedy: str) -> str:
    """Return a path as a text; refuse anything else, such as a table, which other libraries take."""
    try:
        return os.fspath(place)
    except TypeError:
        raise BadInput(f"{_shown(place)} is no path", where, remedy) from None


def override(key: str, value: Any) -> list[str]:
    """Return the overrides that set a key; a mapping sets each of its keys, and a part chooses itself."""
    if isinstance(value, Part):
        return value.overrides(key)
    if isinstance(value, Mapping):
        return [text for name, inner in value.items() for text in override(f"{key}.{name}", inner)]
    return [f"{key}={written(value, key)}"]


def _shown(value: object) -> str:
    """Return a value as Python writes it, or only its kind if that is long."""
    return _kind(value) if "\n" in repr(value) or len(repr(value)) > 120 else repr(value)


def _kind(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def is_whole(value: object, least: int | None = None) -> bool:
    """Return whether a value is a whole number, NumPy's included, of at least `least`; true and false are none."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    return whole and (least is None or int(value) >= least)  # type: ignore[call-overload]


def written(value: Any, key: str | None = None) -> str:
    """Return a value as Hydra's grammar writes it. Numbers, arrays and series of other libraries are Python's.

    >>> written([None, True, 0.5, "a b"])
    '[null,true,0.5,"a b"]'

    Args:
        key: the option that has the value, for error messages.

    Raises:
        BadInput: if it is neither a number, a text, a path, a list nor a mapping.
    """
    if (size := math.prod(getattr(value, "shape", ()))) > MOST_NUMBERS:
        remedy = "save it to a file, and give the path to a class that reads it"
        raise BadInput(f"is {_kind(value)} with {size:,} values, too many for an option", key, remedy)
    plain = getattr(value, "tolist", None) or getattr(value, "to_list", None)  # NumPy, PyTorch, pandas; polars
    if callable(plain) and not isinstance(value, type):
        value = plain()
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{name}:{written(inner, key)}" for name, inner in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return "[" + ",".join(written(inner, key) for inner in value) + "]"
    if isinstance(value, int | float):
        return repr(value)
    if any(kind.__module__.split(".")[0] in OURS for kind in type(value).__mro__):  # a part of a part
        own = type(value)
        return written({"_target_": f"{own.__module__}.{own.__qualname__}", **constructor_arguments(value)}, key)
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str):
        remedy = "give a number, a text, a path, a list or a mapping"
        raise BadInput(f"{_shown(value)} is no value of an option", key, remedy)
    if PLAIN.fullmatch(text) and text.lower() not in WORDS:
        return text
    return '"' + re.sub(r'(\\*)"', r'\1\1\\"', text) + ("\\" if text.endswith("\\") else "") + '"'
