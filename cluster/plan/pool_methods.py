"""Turns `pyrite pool`'s overrides into the methods that are compared."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.config.build import build, locate
from cluster.config.compose import compose
from cluster.config.groups import group_options, option
from cluster.plan.sweep import key_of, values_of
from pooling.simulation import Method
from ranking.digest import digest
from ranking.errors import BadInput

ALL = "all"


@dataclass(frozen=True)
class Variant:
    """A method with its options.

    Args:
        label: how tables call it: the method, and in brackets what is swept of its options.
        method: its name in conf/method.
        overrides: that make it.
        node: composed.
    """

    label: str
    method: str
    overrides: tuple[str, ...]
    node: dict[str, Any]

    @property
    def identity(self) -> str:
        """Digest of what its result depends on, also of the files that it names."""
        return digest([self.node, *(Path(of["path"]).read_text() for of in _with_files(self.node))])

    def build(self) -> Method:
        """The method.

        Raises:
            BadInput: where it refuses an option.
        """
        made: Method = build(self.node, f"method.{self.method}")
        return made


def split(overrides: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """What overrides say: the methods' names, options of methods, and all others.

    A class from elsewhere is a method under the name that it is given: `+method.NAME._target_=mymodule.Class`.

    Raises:
        BadInput: where an override is malformed, or names a method that there is not.
    """
    there = group_options()["method"]
    names: list[str] = []
    options, others, own = [], [], []
    for text in overrides:
        key = key_of(text)
        if key == "method":
            names = [name.strip() for value in values_of(text) for name in value.strip("[]").split(",")]
            names = [name for name in names if name]
        elif key.startswith("method."):
            options.append(text)
            own += [_method_of(text)] if key.endswith("._target_") and _method_of(text) not in there else []
        else:
            others.append(text)
    every = [name for name in there if ALL in names and not _needs(name) - _at_hand(others)]
    chosen = [name for given in names for name in (every if given == ALL else [given])]
    for name in chosen:
        if name not in there:
            raise BadInput(f"there is no method {name!r}", remedy=f"choose among {', '.join(there)} and {ALL}")
    return list(dict.fromkeys([*chosen, *own])), options, others


def variants(names: Sequence[str], options: Sequence[str], preset: Sequence[str]) -> list[Variant]:
    """Each method with every combination of its swept options.

    Args:
        names: of methods, each once.
        options: overrides `method.NAME.option=…` that may sweep.
        preset: the same, of the preset: for whichever methods are there.

    Raises:
        BadInput: where an option is of no method that is compared, or is refused.
    """
    for text in options:
        if _method_of(text) not in names:
            raise BadInput(
                f"{key_of(text)} is an option of none of the methods ({', '.join(names)})",
                remedy="name it as method.NAME.option=…, with NAME among method=…",
            )
    found, there = [], group_options()["method"]
    plain = _plain([name for name in names if name in there]) if len(names) > 1 else {}
    for name in names:
        base = f"method={name}" if name in there else "method=[]"
        given = {key_of(text): text for text in [*preset, *options] if _method_of(text) == name}
        swept = {key for key, text in given.items() if len(values_of(text)) > 1}
        for values in itertools.product(*(values_of(text) for text in given.values())):
            chosen = dict(zip(given, values, strict=True))
            overrides = tuple(f"{_sign(given[key])}{key}={value}" for key, value in chosen.items())
            as_it_is = name in plain and not overrides
            node = plain[name] if as_it_is else compose([base, *overrides], "pool")["method"][name]
            for of in _with_files(node):  # trials run in other folders
                of["path"] = os.path.abspath(of["path"])
            told = [f"{key.removeprefix(f'method.{name}.')}={chosen[key]}" for key in given if key in swept]
            label = f"{name}[{','.join(told)}]" if told else name
            variant = Variant(label, name, (base, *overrides), node)
            variant.build()
            found.append(variant)
    return found


def _plain(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Methods with their own defaults, composed all at once; none where one of them can't do without options."""
    try:
        return dict(compose([f"method=[{','.join(names)}]"], "pool")["method"])
    except BadInput:
        return {}


def _at_hand(others: Sequence[str]) -> set[str]:
    """What a pool has besides runs: texts, of a collection that is named or built over; a machine's grades."""
    keys = {key_of(text) for text in others}
    texts = "collection" in keys or not keys & {"runs", "pools"}
    return ({"texts"} if texts else set()) | keys & {"machine"}


def _needs(name: str) -> set[str]:
    """What a method needs of it."""
    target = option("method", name).get("_target_")  # bandits have theirs elsewhere
    return set() if target is None else set(getattr(locate(target), "needs", ()))


def _with_files(node: Any) -> Iterator[dict[str, Any]]:
    """The parts of a method that name a file by `path`."""
    if isinstance(node, dict):
        if isinstance(node.get("path"), str):
            yield node
        for value in node.values():
            yield from _with_files(value)


def _method_of(text: str) -> str:
    parts = key_of(text).split(".")
    return parts[1] if len(parts) > 2 else ""


def _sign(text: str) -> str:
    return text[: len(text) - len(text.lstrip("+"))]
