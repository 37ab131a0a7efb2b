"""Decides which options a file may not set: those that run code, connect to a server or choose where to write.

A folder of results, a description of weights and the options of a judged folder may come from anywhere. An option of
`RESERVED` is carried out only if the user has typed the same value: in the command, with `--resume`, or as an object in
Python. `PYRITE_TRUST` names the variables of the environment that may be sent to a server.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from pyrite.cluster.config.groups import NAMED_GROUPS
from pyrite.cluster.config.nested import leaves, nodes
from pyrite.cluster.config.override import key_of, of_keys, root_of, unquoted
from pyrite.cluster.config.quoting import override_of, several
from pyrite.cluster.config.secrets import VARIABLE as OF_ENVIRONMENT
from pyrite.cluster.config.secrets import concealed
from pyrite.cluster.config.trust import command_typed, given, is_carried_out, trusted, trusting_command
from pyrite.ranking.errors import BadInput, refuse

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


def check_reserved(config: Mapping[str, Any]) -> None:
    """Refuse options of `RESERVED` in a configuration that a file has decided, with the command that types them."""
    if not is_carried_out():
        return
    foreign = [
        (key, value, each.does)
        for key, value in leaves(config)
        for each in RESERVED
        if fnmatchcase(key, each.key) and value not in given() and not each.harmless(value)
    ]
    if not foreign:
        return
    command = command_typed()
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
    known = trusted()
    foreign = [text for text in texts if "${" in text and text not in known] if is_carried_out() else []
    hidden = next((text for text in foreign if "${" in PLAIN.sub("", text)), None)
    remedy = "write its value out, or give it again as it was typed"
    refuse(hidden, "the folder hides which variables of your environment it reads", hidden, remedy)
    names = {found[1] for text in foreign for found in OF_ENVIRONMENT.finditer(text)} - known
    values = {value: name for name in names if (value := os.environ.get(name))}
    for text in (node for node in nodes(config) if isinstance(node, str) and values and NETWORK.search(node)):
        sent = [name for value, name in values.items() if value in text]
        what = f"the folder sends a variable of your environment, {', '.join(sent)}, to a server"
        refuse(sent, what, concealed(text), trusting_command(sent))


def to_type_again(overrides: Sequence[str]) -> list[str]:
    """Return those of recorded overrides that a user types again with `--resume`, since a file may not decide them.

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
