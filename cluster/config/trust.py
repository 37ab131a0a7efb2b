"""Decides what the user trusts, and which classes a file may name.

A folder of results, a description of weights and the options of a judged folder may come from anywhere. A class that
they name is built only if it is in `listed`, or if the user named it too: in `PYRITE_TRUST`, with `--resume`, or as
an object in Python. Which options they may not set is in `reserved`.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Literal

from pyrite.cluster.config.declared import options_of
from pyrite.cluster.config.grammar import choices_of, parsed
from pyrite.cluster.config.groups import CONF, option
from pyrite.cluster.config.nested import nodes, parts_within
from pyrite.cluster.config.override import unquoted
from pyrite.cluster.config.parts import PARTS
from pyrite.cluster.config.schema import SHAPES
from pyrite.cluster.config.secrets import resolved_in
from pyrite.cluster.config.signatures import defaults
from pyrite.ranking.errors import BadInput

Trust = Literal["user", "composed", "file"]
"""The origin of a part's description: `user` typed or passed it, `file` was read from a folder or a file of results,
and `composed` is a part of a configuration of `compose`, which has checked what came from a folder."""
VARIABLE = "PYRITE_TRUST"
"""The environment variable with what the user trusts: classes (`mine.Bottom`) or modules (`mine`), with commas."""
NAMED = re.compile(r"_target_['\"]?\s*[:=]\s*['\"]?([\w.]+)")
"""A class in a YAML file or an override."""
BY_PATH = re.compile(r"^\+*(?:callbacks|stoppers)=")
"""An override that names classes by their paths alone."""


WITHOUT_A_NAME = {
    "pyrite.pooling.adjudicators.bandit.bandit.Bandit",
    *("pyrite.pooling.priors.CommonPrior", "pyrite.pooling.priors.PriorFile", "pyrite.pooling.rewards.Binary"),
}
"""Parts of Pyrite that options take by their class alone (`arm.prior`, `reward`), which no default or file names, and a
method in folders of version 0.2."""

_from_folder = ContextVar("from_folder", default=False)
_only_read = ContextVar("only_read", default=False)
_given = ContextVar[tuple[str, ...]]("given", default=())
_command = ContextVar[tuple[str, ...]]("command", default=())


@contextmanager
def _within(variable: ContextVar[Any], value: Any) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def from_folder(yes: bool = True) -> AbstractContextManager[None]:
    """Mark what is composed within as read from a folder, not from the command line; also if what is around it is."""
    return _within(_from_folder, yes or _from_folder.get())


def only_read() -> AbstractContextManager[None]:
    """Mark what is composed within as described to the user alone, and not carried out."""
    return _within(_only_read, True)


def trusting(names: Iterable[str]) -> AbstractContextManager[None]:
    """Trust classes and values within, which the user has typed, or given as objects."""
    return _within(_given, (*_given.get(), *names))


def trusting_typed(overrides: Sequence[str]) -> AbstractContextManager[None]:
    """Trust within all classes and values that overrides of the user's name."""
    return trusting([*named_classes(overrides), *typed_texts(overrides)])


def typed_command(arguments: Sequence[str]) -> AbstractContextManager[None]:
    """Remember the arguments of the command within, which refusals repeat."""
    return _within(_command, tuple(arguments))


def command_typed() -> list[str]:
    """Return the arguments of the command that `typed_command` remembers; none if there is none."""
    return list(_command.get())


def origin() -> Trust:
    """Return the origin of what is composed now."""
    return "file" if _from_folder.get() else "user"


@functools.cache
def listed() -> frozenset[str]:
    """Return the classes that a file may name: those of YAML files in `conf/`, of declared options, of `PARTS` with
    their defaults, and `WITHOUT_A_NAME`.
    """
    declared = (name for primary in SHAPES for node in options_of(primary).values() for name in classes_in(node))
    of_files = {name for file in CONF.rglob("*.yaml") for name in NAMED.findall(file.read_text("utf-8"))}
    of_parts = (classes_in(option(group, name)) for group, names in PARTS.items() for name in names)
    found = of_files.union(WITHOUT_A_NAME, declared, *of_parts)
    waiting = [*found]
    while waiting:  # and the defaults of their options
        new = set(classes_in(defaults(waiting.pop()))) - found
        found |= new
        waiting += new
    return frozenset(found)


def check_classes(node: Any, trust: Trust) -> None:
    """Refuse a description from a file that names classes which are neither listed nor trusted by the user.

    Nothing is imported. All classes are refused in one line, with the command that trusts them.
    """
    if trust != "file":
        return
    known = listed().union(trusted())
    foreign = [name for name in dict.fromkeys(classes_in(node)) if not known & {name, name.rpartition(".")[0] or name}]
    if not foreign:
        return
    what = "a class that is not" if len(foreign) == 1 else "classes that are not"
    raise BadInput(f"the folder names {what} Pyrite's", ", ".join(foreign), trusting_command(foreign))


def is_carried_out() -> bool:
    """Return whether what is composed now is carried out, and comes from a file."""
    return _from_folder.get() and not _only_read.get()


def given() -> tuple[str, ...]:
    """Return the classes and values that the user has typed, or given as objects."""
    return _given.get()


def trusted() -> set[str]:
    """Return the names that the user trusts: those given, and those in `PYRITE_TRUST`."""
    return {*_given.get(), *_of_environment()}


def _of_environment() -> list[str]:
    return [name for text in os.environ.get(VARIABLE, "").split(",") if (name := text.strip())]


def trusting_command(names: Sequence[str]) -> str:
    """Return the remedy that trusts further names."""
    command = shlex.join(["pyrite", *_command.get()]) if _command.get() else "pyrite …"
    return f"if you know and trust it: {VARIABLE}={shlex.quote(','.join([*_of_environment(), *names]))} {command}"


def typed_texts(overrides: Iterable[str]) -> set[str]:
    """Return the texts that overrides give as values, also within lists and mappings: as typed, and resolved."""
    texts = set[str]()
    for override in overrides:
        texts.add(unquoted(override.partition("=")[2]))
        with suppress(BadInput):  # what can't be read is refused when it is composed
            values = [parsed(text).value() for text in choices_of(override).texts]
            texts |= {node for node in nodes(values) if isinstance(node, str)}
    for text in [*texts]:
        with suppress(BadInput):  # a variable that is not set
            texts.add(resolved_in(text))
    return texts


def classes_in(node: Any) -> Iterator[str]:
    """Yield the paths of all classes that a description names."""
    return (str(part["_target_"]) for part in parts_within(node))


def named_classes(overrides: Iterable[str]) -> list[str]:
    """Return the classes that overrides name."""
    return [
        name for text in overrides
        for name in (re.findall(r"[A-Za-z_]\w*(?:\.\w+)+", text) if BY_PATH.match(text) else NAMED.findall(text))
    ]  # fmt: skip


def foreign_classes(overrides: Iterable[str]) -> list[str]:
    """Return the classes that overrides name and a file may not name, each once."""
    return [name for name in dict.fromkeys(named_classes(overrides)) if name not in listed()]
