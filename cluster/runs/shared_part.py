"""Declares the parts that runs share: each by one function, whose parameters give its needs and its key."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, get_type_hints

from pyrite.ranking.digest import digest

if TYPE_CHECKING:
    from pyrite.cluster.runs.collections import Collections

FORMAT = 20
"""Number to increase whenever a part's content changes for the same configuration."""

Config = dict[str, Any]


class PartSource(Protocol):
    """The object that opens or makes the inputs of parts: `pyrite.cluster.runs.artifacts.Artifacts`."""

    @property
    def note(self) -> Callable[[str], None]: ...

    def part(self, config: Config, name: str) -> Any: ...

    def keys(self, config: Config) -> dict[str, str]: ...

    def place(self, config: Config, key: str) -> Path: ...

    def sources(self, config: Config, base: Any) -> Any: ...

    def collection(self, config: Config) -> Any: ...

    def other_collection(self, config: Config, name: str) -> Any: ...


@dataclass(frozen=True)
class Input:
    """A parameter that the function of a part may have.

    Args:
        value: returns the argument, given the artifacts, the configuration and the name of the part.
        needs: returns the parts that must exist before. Their keys are part of the key.
        content: returns what else the key depends on, without making anything.
    """

    value: Callable[[PartSource, Config, str], Any]
    needs: Callable[[Config, str], list[str]] = lambda config, name: []
    content: Callable[[Collections, Config, str], list[Any]] = lambda collections, config, name: []


def _only_function(config: Config, name: str) -> list[str]:
    (function,) = config["function"]  # an agent picks documents from the lists of one function
    return [f"function:{function}"]


def _labels(config: Config, name: str) -> list[str]:
    return ["labels"] if config["ranker"].get("categories") else []


def _read(config: Config, name: str) -> list[str]:
    return ["base", *("tokens" for _ in SHARED["tokens"].names(config))]


def _lists(artifacts: PartSource, config: Config, names: Iterable[str]) -> list[Any]:
    return [artifacts.part(config, name).lists for name in names]


def _every_function(config: Config, name: str) -> list[str]:
    return [f"function:{function}" for function in config["function"]]


def _folder(artifacts: PartSource, config: Config, part: str) -> Path:
    """Return the folder next to a part's file, for arrays of collections in pieces."""
    return artifacts.place(config, artifacts.keys(config)[part]).with_suffix("")


INPUTS: dict[str, Input] = {
    "config": Input(lambda artifacts, config, name: config),
    "name": Input(lambda artifacts, config, name: name),
    "note": Input(lambda artifacts, config, name: artifacts.note),
    "folder": Input(lambda artifacts, config, name: partial(_folder, artifacts, config)),
    "collection": Input(
        lambda artifacts, config, name: artifacts.collection(config),
        content=lambda collections, config, name: [collections.collection(config).fingerprint],
    ),
    "other": Input(
        lambda artifacts, config, name: artifacts.other_collection(config, name),
        content=lambda collections, config, name: [collections.other_collection(config, name).fingerprint],
    ),
    "base": Input(lambda artifacts, config, name: artifacts.part(config, "base"), lambda config, name: ["base"]),
    "sources": Input(
        lambda artifacts, config, name: artifacts.sources(config, artifacts.part(config, "base")),
        lambda config, name: ["base"],
    ),
    "labels": Input(
        lambda artifacts, config, name: artifacts.part(config, "labels") if _labels(config, name) else None, _labels
    ),
    "read": Input(
        lambda artifacts, config, name: {each: artifacts.part(config, each) for each in _read(config, name)}, _read
    ),
    "tested": Input(
        lambda artifacts, config, name: artifacts.part(config, f"origin:{name}"),
        lambda config, name: [f"origin:{name}"],
    ),
    "lists": Input(
        lambda artifacts, config, name: _lists(artifacts, config, [f"function:{name}"])[0],
        lambda config, name: [f"function:{name}"],
    ),
    "nearest": Input(
        lambda artifacts, config, name: _lists(artifacts, config, _only_function(config, name))[0], _only_function
    ),
    "every_list": Input(
        lambda artifacts, config, name: _lists(artifacts, config, _every_function(config, name)), _every_function
    ),
}
"""The inputs that the function of a part can have, by the name of the parameter."""


@dataclass(frozen=True)
class SharedPart:
    """A kind of part, declared by `shared_part`."""

    kind: str
    make: Callable[..., Any]
    message: str
    per: Callable[[Config], Iterable[str]]
    options: Callable[[Config, str], list[Any]]
    exists: Callable[[Config], object]
    as_a_run: bool

    def names(self, config: Config) -> Iterable[str]:
        """Return the names of the parts of this kind that a configuration has."""
        return self.per(config) if self.exists(config) else ()

    @property
    def parameters(self) -> list[str]:
        """The parameters of its function, names of `INPUTS`."""
        return [*inspect.signature(self.make).parameters]

    @property
    def result(self) -> Any:
        """The class of the part: the return annotation of its function."""
        return get_type_hints(self.make)["return"]

    def needs(self, config: Config, name: str) -> list[str]:
        """Return the parts from which a part is made."""
        return list(
            dict.fromkeys(part for parameter in self.parameters for part in INPUTS[parameter].needs(config, name))
        )

    def key(self, collections: Collections, config: Config, name: str, keys: Mapping[str, str]) -> str:
        """Return the digest of everything that a part depends on."""
        inputs = [INPUTS[parameter] for parameter in self.parameters]
        content = [each.content(collections, config, name) for each in inputs]
        needed = [keys[part] for part in self.needs(config, name)]
        return digest([FORMAT, self.kind, *content, needed, *self.options(config, name)])


SHARED: dict[str, SharedPart] = {}
"""Every kind of part, in an order in which each is after those that it needs."""


def shared_part(
    message: str,
    per: Callable[[Config], Iterable[str]] = lambda config: [""],
    options: Callable[[Config, str], list[Any]] = lambda config, name: [],
    exists: Callable[[Config], object] = lambda config: True,
    as_a_run: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a kind of part by the function that makes it.

    The kind is the name of the function, its parameters are names of `INPUTS`, and its return annotation is the class
    that is restored from the cache.

    Args:
        message: printed while a part is made; `{name}` is the name of the part.
        per: returns the names of the parts of this kind that a configuration has. The name "" is that of a part which
            exists once.
        options: returns the options that a part depends on, as its key has them.
        exists: returns whether a configuration has any part of this kind.
        as_a_run: whether a task that makes it reserves what a run does, because it computes what a run computes.
    """

    def declare(make: Callable[..., Any]) -> Callable[..., Any]:
        kind = make.__name__
        SHARED[kind] = SharedPart(kind, make, message, per, options, exists, as_a_run)
        return make

    return declare


def part_names(config: Config) -> Iterator[tuple[str, SharedPart, str]]:
    """Yield each part of a configuration: its full name, as `function:bm25`, its kind and its name within the kind."""
    for part in SHARED.values():
        for name in part.names(config):
            yield f"{part.kind}:{name}" if name else part.kind, part, name


def declared(full_name: str) -> tuple[SharedPart, str]:
    """Return the kind of a part, and its name within the kind."""
    kind, _, name = full_name.partition(":")
    return SHARED[kind], name
