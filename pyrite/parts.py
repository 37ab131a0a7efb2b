"""Turns objects into the overrides of a configuration: parts by name, and classes of the user's own.

>>> from pyrite import BM25, InBatch, SimANS, overrides
>>> overrides(SimANS(a=2.0))
['selector=simans', 'selector.a=2.0']
>>> print(*overrides(InBatch() + BM25(1, pick=SimANS(a=2.0)))[1:])
function=[in_batch,bm25] negatives.bm25=1 selector=uniform selector.bm25=simans selector.bm25.a=2.0
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial, singledispatch
from inspect import signature
from itertools import chain
from numbers import Integral, Real
from typing import Any

from pyrite.cluster.config.build import locate
from pyrite.cluster.config.groups import NAMED_GROUPS, group_options, name_of, option
from pyrite.cluster.config.other_parts import name_here
from pyrite.cluster.config.parts import BASES, OURS
from pyrite.cluster.config.refusals import MAIN_OPTION
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.part import config_of, options_of, path_of
from pyrite.ranking.similar import similar
from pyrite.remedies import class_named
from pyrite.sampling.guard import Guard
from pyrite.sampling.policies.fixed import Fixed
from pyrite.sampling.suppliers import Negatives, Supplier

PLAIN = re.compile(r"[A-Za-z_./~@][\w./~@+:-]*")
"""A text that Hydra reads as it is written."""
MOST_NUMBERS = 2000
"""The longest array that is written as an option. Hydra reads some thousand numbers per second, for every run again."""
WORDS = {"null", "true", "false", "nan", "inf"}
REPLACED = {"selector": "uniform", "policy": "random", "ranker": "static", "objective": "softmax"}
"""By group, the part without options that a class of the user's own replaces."""


def overrides(thing: object) -> list[str]:
    """Return the overrides that choose a part and set its options, as the command line takes them.

    Args:
        thing: a part (`SimANS(a=2.0)`, `Schedule(Random(), BM25())`), a sum of functions, or a class of one.

    Raises:
        BadInput: if it is no part, or an option has a value that can't be written.
    """
    if isinstance(thing, Negatives):
        return overrides_of_negatives(thing)
    kind = class_of(thing)
    group = next((group for group, base in BASES.items() if issubclass(kind, locate(base))), None)
    if group is None:
        raise BadInput(f"{_shown(thing)} is no part", remedy=f"give a {', a '.join(BASES)}")
    written_as: dict[str, Callable[[object], list[str]]]
    written_as = {"function": of_negatives, "policy": of_negatives, "method": of_methods}
    return written_as.get(group, partial(chosen, group))(thing)


def class_of(thing: object) -> type:
    """Return a class itself, and the class of anything else."""
    return thing if isinstance(thing, type) else type(thing)


def part_of(group: str, thing: object) -> Any:
    """Return an object of a part; of a class it is made without arguments.

    Raises:
        BadInput: if it is no part of this group, or no run can import its class.
    """
    kind = class_of(thing)
    if not issubclass(kind, locate(BASES[group])):
        ours = _object_meant(group, thing) or "one of pyrite's"
        remedy = f"give {ours}, or an object or class of your own that subclasses {BASES[group]}"
        raise BadInput(f"{_shown(thing)} is no {'retrieval ' * (group == 'function')}{group}", remedy=remedy)
    refuse(
        kind.__qualname__ != kind.__name__,
        "is defined inside a function or class, where no run can import it",
        kind.__qualname__,
        "define it at the top level of a module, script or cell",
    )
    return kind() if isinstance(thing, type) else thing


def _object_meant(group: str, thing: object) -> str | None:
    """Return the part that a name or a number is meant for, as Python writes it; None if it is none."""
    if group in MAIN_OPTION and isinstance(thing, Real):
        return f"pyrite.{group.title()}({MAIN_OPTION[group]}={thing})"
    here = similar(name_here(group, str(thing)), group_options().get(group, ()))
    return here and f"pyrite.{class_named(group, here)}(…)"


def chosen(group: str, thing: object, key: str | None = None) -> list[str]:
    """Return the overrides that choose a part and set its options.

    Args:
        key: the key of the part, if it is not that of its group, as `selector.bm25`.
    """
    part, key = part_of(group, thing), key or group
    if group == "guard":
        return _settings(options_of(part), key)
    if name := label_of(group, part):
        return [f"{key}={name}", *_settings(_changed(group, name, part), key)]
    replaced = [f"{key}={REPLACED[group]}"] if group in REPLACED else []
    return [*replaced, f"{key}._target_={path_of(type(part))}", *_own_options(part, f"++{key}")]


def under(group: str, thing: object, key: str) -> list[str]:
    """Return the overrides of the options of a part that has a key, or those that add a class of the user's own."""
    part = part_of(group, thing)
    if name := label_of(group, part):
        return _settings(_changed(group, name, part), key)
    return [f"+{key}._target_={path_of(type(part))}", *_own_options(part, f"+{key}")]


def _own_options(part: object, key: str) -> list[str]:
    """Return the overrides that set the options of an object of the user's own class."""
    return [text for name, value in options_of(part).items() for text in _own_option(f"{key}.{name}", name, value)]


def _own_option(key: str, name: str, value: object) -> list[str]:
    if isinstance(value, Guard):
        return [f"{key}._target_={path_of(Guard)}", *chosen("guard", value, key)]
    return [f"{key}={written(value, name)}"]


def label_of(group: str, part: object) -> str | None:
    """Return the name of a part's class in its group; None for a class of the user's own."""
    return name_of(group, path_of(type(part)))


def _changed(group: str, name: str, part: object) -> dict[str, Any]:
    """Return the given options, and None for those that the class leaves out but the name fills with a part."""
    node = option(group, name)
    node = node.get(name, node) if group in NAMED_GROUPS else node
    parameters = signature(type(part)).parameters.items()
    none = [key for key, each in parameters if each.default is None and _is_part(node.get(key))]
    return dict.fromkeys(none) | options_of(part)


def _is_part(value: object) -> bool:
    """Return whether a value of a configuration describes a part."""
    return isinstance(value, dict) and "_target_" in value


def _settings(options: Mapping[str, Any], key: str) -> list[str]:
    return [text for name, value in options.items() for text in override(f"{key}.{name}", value)]


def of_methods(*methods: object) -> list[str]:
    """Return the overrides that choose methods of judging, each of another name."""
    parts = [part_of("method", method) for method in methods]
    named = [label_of("method", part) for part in parts]
    labels = [name or type(part).__name__.lower() for name, part in zip(named, parts, strict=True)]
    twice = first_repeated(labels)
    remedy = f"simulate one after the other, or sweep an option on the command line, as method.{twice}.KEY=A,B"
    refuse(twice, f"two methods are called {twice}", "methods", remedy)
    settings = [under("method", part, f"method.{label}") for label, part in zip(labels, parts, strict=True)]
    return [f"method=[{','.join(filter(None, named))}]", *chain.from_iterable(settings)]


def overrides_of_negatives(negatives: Negatives) -> list[str]:
    """Return the overrides of one method of a study: policy, functions, their numbers and selectors."""
    functions = {_name(function): function for function in negatives.functions}
    if len(functions) < len(negatives.functions):
        raise BadInput("two functions have one name", repr(negatives), "give one of them another, as name='deep'")
    first, *others = chosen("policy", negatives.policy or Fixed())
    alone = len(functions) == 1
    choices: list[str] = []
    settings: list[str] = []
    counts: list[str] = []
    picks: list[str] = []
    for name, function in functions.items():
        choices += _choice(function, name)
        settings += under("function", function, f"function.{name}")
        counts += given(f"negatives.{name}", function.count)
        picks += part_given("selector", function.pick, "selector" if alone else f"selector.{name}")
    uniform = [] if alone and picks else ["selector=uniform"]
    return [first, f"function=[{','.join(choices)}]", *settings, *others, *counts, *uniform, *picks]


def of_negatives(thing: object) -> list[str]:
    """Return the overrides of a function, a sum or a policy; none if there is none."""
    return [] if thing is None else overrides_of_negatives(Negatives.of(thing))


def _choice(function: Supplier, name: str) -> list[str]:
    """Return a function as an entry of `function=[…]`; a class of the user's own is none."""
    part = label_of("function", function)
    return [part if part == name else f"{part}@{name}"] if part else []


def given(key: str, value: object) -> list[str]:
    """Return the overrides that set a key; none if the value is None."""
    return [] if value is None else override(key, value)


def part_given(group: str, thing: object, key: str | None = None) -> list[str]:
    """Return the overrides that choose a part; none if it is None."""
    return [] if thing is None else chosen(group, thing, key)


def of_kind(value: object, kinds: Any, where: str, remedy: str, what: str = "is a {}") -> Any:
    """Return a value of a type; refuse others, texts among them unless they are asked for."""
    if not isinstance(value, kinds) or (isinstance(value, str) and kinds is not str):
        raise BadInput(what.format(type(value).__name__), where, remedy)
    return value


def _name(function: Supplier) -> str:
    return function.name or label_of("function", function) or type(function).__name__.lower()


def path_text(place: str | os.PathLike[str], where: str | None, remedy: str) -> str:
    """Return a path as a text; refuse anything else, such as a table, which other libraries take."""
    try:
        return os.fspath(place)
    except TypeError:
        raise BadInput(f"{_shown(place)} is no path", where, remedy) from None


def override(key: str, value: Any) -> list[str]:
    """Return the overrides that set a key; a mapping sets each of its keys, and a guard its options."""
    if isinstance(value, Guard):  # whose ranker is a folder, in a short form of its own
        return chosen("guard", value, key)
    if isinstance(value, Mapping):
        return [text for name, inner in value.items() for text in override(f"{key}.{name}", inner)]
    return [f"{key}={written(value, key)}"]


def _shown(value: object) -> str:
    """Return a value as Python writes it, or only its kind if that is long."""
    return _kind(value) if "\n" in repr(value) or len(repr(value)) > 120 else repr(value)


def _kind(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def first_repeated(values: Sequence[Any]) -> Any:
    """Return the first value that is there twice; None if there is none."""
    return next((value for value in values if values.count(value) > 1), None)


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
    size = math.prod(getattr(value, "shape", ()))
    remedy = "save it to a file, and give the path to a class that reads it"
    refuse(size > MOST_NUMBERS, f"is {_kind(value)} with {size:,} values, too many for an option", key, remedy)
    plain = getattr(value, "tolist", None) or getattr(value, "to_list", None)  # NumPy, PyTorch, pandas; polars
    return _written(plain() if callable(plain) and not isinstance(value, type) else value, key)


@singledispatch
def _written(value: Any, key: str | None) -> str:
    """Return a value of Python as Hydra's grammar writes it, by its type."""
    if any(kind.__module__.split(".")[0] == OURS for kind in type(value).__mro__):  # a part of a part
        return written(config_of(value), key)
    remedy = "give a number, a text, a path, a list or a mapping"
    raise BadInput(f"{_shown(value)} is no value of an option", key, remedy)


@_written.register
def _(value: None, key: str | None) -> str:
    return "null"


@_written.register
def _(value: bool, key: str | None) -> str:
    return str(value).lower()


@_written.register(int)
@_written.register(float)
def _(value: float, key: str | None) -> str:
    return repr(value)


@_written.register
def _(value: Mapping, key: str | None) -> str:
    return "{" + ",".join(f"{name}:{written(inner, key)}" for name, inner in value.items()) + "}"


@_written.register
def _(value: Sequence, key: str | None) -> str:
    return "[" + ",".join(written(inner, key) for inner in value) + "]"


@_written.register
def _(value: os.PathLike, key: str | None) -> str:
    return _written(os.fspath(value), key)


@_written.register
def _(value: bytes, key: str | None) -> str:
    raise BadInput(f"{_shown(value)} is no value of an option", key, "give a text")


@_written.register
def _(value: str, key: str | None) -> str:
    if PLAIN.fullmatch(value) and value.lower() not in WORDS:
        return value
    return '"' + re.sub(r'(\\*)"', r'\1\1\\"', value) + ("\\" if value.endswith("\\") else "") + '"'
