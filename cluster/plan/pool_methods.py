"""Turns the overrides of `pyrite pool` into a plan: the methods to compare."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyrite.cluster.config.build import build, locate
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.grammar import values_of
from pyrite.cluster.config.groups import group_options, option
from pyrite.cluster.config.override import key_of
from pyrite.cluster.output.storage import Storage
from pyrite.pooling.simulation import Method, adjudicator_of
from pyrite.ranking.digest import digest
from pyrite.ranking.errors import BadInput

ALL = "all"


@dataclass(frozen=True)
class Variant:
    """A method with its options.

    Args:
        label: its name in tables: the method, with the swept options in brackets.
        overrides: the overrides that compose it.
    """

    label: str
    method: str
    overrides: tuple[str, ...]
    node: dict[str, Any]

    @property
    def identity(self) -> str:
        """The digest of its options and of the files that it names."""
        return digest([self.node, *(Path(part["path"]).read_text() for part in _with_files(self.node))])

    def build(self) -> Method:
        """Build the method; refuse a class that is none."""
        method: Method = build(self.node, f"method.{self.method}", trust="composed")
        adjudicator_of(method)
        return method


@dataclass(frozen=True)
class PoolPlan:
    """A pooling study as the user requested it."""

    options: dict[str, Any]
    arguments: list[str]
    variants: list[Variant]
    storage: Storage


def split(overrides: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """Split overrides into the names of methods, the options of methods, and all others.

    A user's class is a method under a name of the user's choice: `+method.NAME._target_=mymodule.Class`.
    """
    known = group_options()["method"]
    names: list[str] = []
    options, others, custom = [], [], []
    for text in overrides:
        key = key_of(text)
        if key == "method":
            names = [name.strip() for value in values_of(text) for name in value.strip("[]").split(",")]
            names = [name for name in names if name]
        elif key.startswith("method."):
            options.append(text)
            custom += [_method_of(text)] if key.endswith("._target_") and _method_of(text) not in known else []
        else:
            others.append(text)
    keys = {key_of(text) for text in others}
    at_hand = keys & {"machine"} | ({"texts"} if "collection" in keys or not keys & {"runs", "pools"} else set())
    every = [name for name in known if ALL in names and not _needs(name) - at_hand]
    chosen = [name for given in names for name in (every if given == ALL else [given])]
    for name in chosen:
        if name not in known:
            raise BadInput(f"there is no method {name!r}", remedy=f"choose among {', '.join(known)} and {ALL}")
    return list(dict.fromkeys([*chosen, *custom])), options, others


def variants(names: Sequence[str], options: Sequence[str], preset: Sequence[str]) -> list[Variant]:
    """Return each method with every combination of its swept options; refuse options of no method among them."""
    for text in options:
        if _method_of(text) not in names:
            raise BadInput(
                f"{key_of(text)} is an option of none of these methods ({', '.join(names)})",
                remedy="name it as method.NAME.option=…, with NAME among method=…",
            )
        if len(set(values_of(text))) < len(values_of(text)):
            raise BadInput("gives a value twice", text, "give each once")
    result, known = [], group_options()["method"]
    plain = _plain([name for name in names if name in known]) if len(names) > 1 else {}
    for name in names:
        base = f"method={name}" if name in known else "method=[]"
        given = {key_of(text): text for text in [*preset, *options] if _method_of(text) == name}
        swept = {key for key, text in given.items() if len(values_of(text)) > 1}
        for values in itertools.product(*(values_of(text) for text in given.values())):
            chosen = dict(zip(given, values, strict=True))
            overrides = tuple(f"{given[key].partition('=')[0]}={value}" for key, value in chosen.items())
            unchanged = name in plain and not overrides
            node = plain[name] if unchanged else compose([base, *overrides], "pool")["method"][name]
            for part in _with_files(node):  # trials run in other folders
                part["path"] = os.path.abspath(part["path"])
            labels = [f"{key.removeprefix(f'method.{name}.')}={chosen[key]}" for key in given if key in swept]
            label = f"{name}[{','.join(labels)}]" if labels else name
            variant = Variant(label, name, (base, *overrides), node)
            variant.build()
            result.append(variant)
    return result


def _plain(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return methods with their defaults, composed together; empty if one of them needs options."""
    try:
        return dict(compose([f"method=[{','.join(names)}]"], "pool")["method"])
    except BadInput:
        return {}


def _needs(name: str) -> set[str]:
    """Return the other inputs that a method needs: `texts` of a collection, grades of a `machine`."""
    target = option("method", name).get("_target_")
    return set() if target is None else set(getattr(locate(target), "needs", ()))


def _with_files(node: Any) -> Iterator[dict[str, Any]]:
    """Yield the parts of a method that name a file by `path`."""
    if isinstance(node, dict):
        if isinstance(node.get("path"), str):
            yield node
        for value in node.values():
            yield from _with_files(value)


def _method_of(text: str) -> str:
    parts = key_of(text).split(".")
    return parts[1] if len(parts) > 2 else ""
