"""Turns the overrides of `pyrite pool` into a plan: the methods to compare."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from pyrite.cluster.config.build import build, locate
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.grammar import by_key, values_of
from pyrite.cluster.config.groups import group_options, option
from pyrite.cluster.config.meant import no_name
from pyrite.cluster.config.nested import parts_within
from pyrite.cluster.config.override import key_of, of_keys, root_of, values_by_key, without
from pyrite.cluster.output.storage import Storage
from pyrite.pooling.simulation import Method, adjudicator_of
from pyrite.ranking.digest import digest
from pyrite.ranking.errors import BadInput, refuse

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
    named, others = of_keys(overrides, {"method"}), without(overrides, {"method"}, root_of)
    options = without(of_keys(overrides, {"method"}, root_of), {"method"})
    known = group_options()["method"]
    classes = [_method_of(text) for text in options if key_of(text).endswith("._target_")]
    custom = [name for name in classes if name not in known]
    return list(dict.fromkeys([*_names(named[-1:], others), *custom])), options, others


def _names(given: Sequence[str], others: Sequence[str]) -> Iterator[str]:
    """Yield the names of methods that `method=` gives; `all` are those whose inputs the other options give."""
    known = group_options()["method"]
    for name in re.findall(r"[^\s,\[\]]+", ",".join(chain.from_iterable(map(values_of, given)))):
        if name not in (*known, ALL):
            raise no_name("method", name, [*known, ALL], "pool")
        yield from [name] if name != ALL else _every(set(map(key_of, others)))


def _every(keys: Set[str]) -> list[str]:
    """Return the methods that need no other inputs than those that keys give."""
    texts = "collection" in keys or keys.isdisjoint({"runs", "pools"})
    at_hand = (keys & {"machine"}) | ({"texts"} if texts else set())
    return [name for name in group_options()["method"] if _needs(name) <= at_hand]


def variants(names: Sequence[str], options: Sequence[str], preset: Sequence[str]) -> list[Variant]:
    """Return each method with every combination of its swept options; refuse options of no method among them."""
    for text in options:
        _check_option(text, names)
    known = group_options()["method"]
    plain = _plain([name for name in names if name in known])
    return [
        each for name in names
        for each in _variants(name, [text for text in [*preset, *options] if _method_of(text) == name], plain.get(name))
    ]  # fmt: skip


def _check_option(text: str, names: Sequence[str]) -> None:
    what = f"{key_of(text)} is an option of none of these methods ({', '.join(names)})"
    refuse(_method_of(text) not in names, what, remedy="name it as method.NAME.option=…, with NAME among method=…")
    refuse(len(set(values_of(text))) < len(values_of(text)), "gives a value twice", text, "give each once")


def _variants(name: str, options: Sequence[str], plain: dict[str, Any] | None) -> Iterator[Variant]:
    """Yield a method with every combination of its options; `plain` is the method without any."""
    base = f"method={name}" if name in group_options()["method"] else "method=[]"
    given = by_key(options)
    swept = [key for key, choices in given.items() if len(choices.texts) > 1]
    for overrides in itertools.product(*(choices.texts for choices in given.values())):
        chosen = values_by_key(overrides)
        node = plain if plain and not overrides else compose([base, *overrides], "pool")["method"][name]
        for part in _with_files(node):  # trials run in other folders
            part["path"] = os.path.abspath(part["path"])
        labels = [f"{key.removeprefix(f'method.{name}.')}={chosen[key]}" for key in swept]
        variant = Variant(f"{name}[{','.join(labels)}]" if labels else name, name, (base, *overrides), node)
        variant.build()
        yield variant


def _plain(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return methods with their defaults, composed together; empty if one of them needs options."""
    try:
        return dict(compose([f"method=[{','.join(names)}]"], "pool")["method"])
    except BadInput:
        return {}


def _needs(name: str) -> set[str]:
    """Return the other inputs that a method needs: `texts` of a collection, grades of a `machine`."""
    return set(getattr(locate(option("method", name)[name]["_target_"]), "needs", ()))


def _with_files(node: Any) -> Iterator[dict[str, Any]]:
    """Yield the parts of a method that name a file by `path`."""
    return (part for part in parts_within(node) if isinstance(part.get("path"), str))


def _method_of(text: str) -> str:
    parts = key_of(text).split(".")
    return parts[1] if len(parts) > 2 else ""
