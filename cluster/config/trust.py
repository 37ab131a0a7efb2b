"""Decides what a file may name: a folder of results, a description of weights, the options of a judged folder.

They may come from anywhere. A class that they name is built only if it is in `listed`, and an option of `RESERVED` is
carried out only if the user has typed the same value, in the command, beside `--resume`, or as an object in Python.
`PYRITE_TRUST` names further classes, and variables of the environment that may be sent to a server.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

from pyrite.cluster.config.declared import options_of
from pyrite.cluster.config.grammar import choices_of, parsed
from pyrite.cluster.config.groups import CONF, NAMED_GROUPS, option
from pyrite.cluster.config.nested import leaves, nodes, parts_within
from pyrite.cluster.config.override import key_of, of_keys, root_of, unquoted
from pyrite.cluster.config.parts import PARTS
from pyrite.cluster.config.quoting import override_of, several
from pyrite.cluster.config.schema import SHAPES
from pyrite.cluster.config.secrets import VARIABLE as OF_ENVIRONMENT
from pyrite.cluster.config.secrets import concealed, resolved_in
from pyrite.cluster.config.signatures import defaults
from pyrite.ranking.errors import BadInput, refuse

Trust = Literal["user", "composed", "file"]
"""The origin of a part's description: `user` typed or passed it, `file` was read from a folder or a file of results,
and `composed` is a part of a configuration of `compose`, which has checked what came from a folder."""
VARIABLE = "PYRITE_TRUST"
"""The environment variable with what the user trusts: classes (`mine.Bottom`) or modules (`mine`), with commas."""
NAMED = re.compile(r"_target_['\"]?\s*[:=]\s*['\"]?([\w.]+)")
"""A class in a YAML file or an override."""
BY_PATH = re.compile(r"^\+*(?:callbacks|stoppers)=")
"""An override that names classes by their paths alone."""
PLAIN = re.compile(r"\$\{[\w.@]+\}|\$\{oc\.decode:\$\{oc\.env:\s*\w+[^{}]*\}\}|" + OF_ENVIRONMENT.pattern)
"""Interpolations by which it is seen which variables of the environment they read."""
NETWORK = re.compile(r"(?<!file)(?<!sqlite)://|^hf:")
"""A text that names a place on the network."""


def is_foreign(address: str | None) -> bool:
    """Return whether an address names a cluster that this machine is not part of, and the environment does not name."""
    import psutil

    host = (address or "").rpartition("://")[2].rpartition(":")[0].strip("[]")
    if not host or address == os.environ.get("RAY_ADDRESS"):
        return False
    own = {each.address.partition("%")[0] for interface in psutil.net_if_addrs().values() for each in interface}
    return host not in {"localhost", socket.gethostname(), *own}


def _is_cache(folder: str) -> bool:
    """Return whether a folder is the environment's cache, or has been used as one."""
    path = os.path.expanduser(folder)
    return folder == os.environ.get("PYRITE_CACHE") or any(
        os.path.isdir(os.path.join(path, name)) for name in ("collections", "parts")
    )


@dataclass(frozen=True)
class Reserved:
    """An option that a file may not decide.

    Args:
        key: the pattern of its keys in a configuration.
        does: what a value of it does.
        harmless: whether a file may give a value nevertheless.
    """

    key: str
    does: str
    harmless: Callable[[str], bool] = lambda value: False


RESERVED = (
    Reserved("trainer.run", "trains with code"),
    Reserved("push", "uploads with your token"),
    Reserved("address", "makes this machine part of a cluster whose owner could run any code on it",
             lambda value: not is_foreign(value)),
    Reserved("search_storage", "writes to that place"),
    Reserved("track.*.uri", "sends numbers, and your token, to that place"),
    Reserved("track.*.entity", "sends numbers there"),
    Reserved("cache", "writes to a folder that is no cache yet", _is_cache),
)  # fmt: skip
"""The options that run code, connect to a server or choose where to write. Each is carried out only if it is typed."""
SHORT = {"trainer.run": "trainer"}
"""Shorter keys of these options."""

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
    known = listed().union(_given.get(), _trusted())
    foreign = [name for name in dict.fromkeys(classes_in(node)) if not known & {name, name.rpartition(".")[0] or name}]
    if not foreign:
        return
    what = "a class that is not" if len(foreign) == 1 else "classes that are not"
    raise BadInput(f"the folder names {what} Pyrite's", ", ".join(foreign), _trusting_command(foreign))


def check_reserved(config: Mapping[str, Any]) -> None:
    """Refuse options of `RESERVED` in a configuration that a file has decided, with the command that types them."""
    if not _is_carried_out():
        return
    foreign = [
        (key, value, each.does)
        for key, value in leaves(config)
        for each in RESERVED
        if fnmatchcase(key, each.key) and value not in _given.get() and not each.harmless(value)
    ]
    if not foreign:
        return
    command = list(_command.get())
    for key, value, _ in foreign:
        root, dot, _ = key.partition(".")
        needed = [f"{root}={several([*config[root]])}"] if dot and root in NAMED_GROUPS else []
        needed.append(override_of(SHORT.get(key, key), concealed(value)))
        command += [text for text in needed if text not in command]
    does = " and ".join(dict.fromkeys(does for *_, does in foreign))
    where = ", ".join(f"{SHORT.get(key, key)}={concealed(value)}" for key, value, _ in foreign)
    remedy = f"if you know and trust it, type it too: {shlex.join(['pyrite', *command])}"
    raise BadInput(f"only the folder names it, and it {does}", where, remedy)


def check_variables(texts: Iterable[str], config: Any) -> None:
    """Refuse variables of the environment that a file sends to a server.

    Args:
        texts: the values in the file that a configuration was composed of.
        config: what they give, with the values of the variables.
    """
    known = {*_given.get(), *_trusted()}
    foreign = [text for text in texts if "${" in text and text not in known] if _is_carried_out() else []
    hidden = next((text for text in foreign if "${" in PLAIN.sub("", text)), None)
    remedy = "write its value out, or give it again as it was typed"
    refuse(hidden, "the folder hides which variables of your environment it reads", hidden, remedy)
    names = {found[1] for text in foreign for found in OF_ENVIRONMENT.finditer(text)} - known
    values = {value: name for name in names if (value := os.environ.get(name))}
    for text in (node for node in nodes(config) if isinstance(node, str) and values and NETWORK.search(node)):
        sent = [name for value, name in values.items() if value in text]
        what = f"the folder sends a variable of your environment, {', '.join(sent)}, to a server"
        refuse(sent, what, concealed(text), _trusting_command(sent))


def _is_carried_out() -> bool:
    """Return whether what is composed now is carried out, and comes from a file."""
    return _from_folder.get() and not _only_read.get()


def _trusted() -> list[str]:
    """Return the names in `PYRITE_TRUST`."""
    return [name for text in os.environ.get(VARIABLE, "").split(",") if (name := text.strip())]


def _trusting_command(names: Sequence[str]) -> str:
    """Return the remedy that trusts further names."""
    command = shlex.join(["pyrite", *_command.get()]) if _command.get() else "pyrite …"
    return f"if you know and trust it: {VARIABLE}={shlex.quote(','.join([*_trusted(), *names]))} {command}"


def typed_texts(overrides: Iterable[str]) -> set[str]:
    """Return the texts that overrides give as values, also within lists and mappings: as typed, and resolved."""
    texts = set[str]()
    for override in overrides:
        texts.add(unquoted(override.partition("=")[2]))
        with suppress(BadInput):  # what can't be read is refused where it is composed
            values = [parsed(text).value() for text in choices_of(override).texts]
            texts |= {node for node in nodes(values) if isinstance(node, str)}
    for text in [*texts]:
        with suppress(BadInput):  # a variable that is not set
            texts.add(resolved_in(text))
    return texts


def to_type_again(overrides: Sequence[str]) -> list[str]:
    """Return those of recorded overrides that a user types again beside `--resume`, since a file may not decide them.

    Options of one group belong together.
    """
    long = {short: key for key, short in SHORT.items()}
    pairs = [(key_of(text), unquoted(text.partition("=")[2])) for text in overrides]
    roots = {
        key.partition(".")[0]
        for key, value in pairs
        for each in RESERVED
        if fnmatchcase(long.get(key, key), each.key) and value != "null" and not each.harmless(value)
    }
    return of_keys(overrides, roots, root_of)


def is_reserved(override: str) -> bool:
    """Return whether an override may repeat what is reserved."""
    return root_of(override) in {each.key.partition(".")[0] for each in RESERVED}


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
