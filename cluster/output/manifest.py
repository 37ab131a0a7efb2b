"""Writes and reads `config.yaml`: the command of an output folder, and everything that its results depend on."""

from __future__ import annotations

import os
import shlex
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from pyrite.cluster.config.reserved import to_type_again
from pyrite.cluster.config.secrets import concealed_in
from pyrite.cluster.output.event_log import EventLog
from pyrite.cluster.output.storage import Storage
from pyrite.ranking.errors import BadInput, refuse

CONFIG = "config.yaml"
HEAD = b"# Written by pyrite, which sees by the last line whether it is whole.\n"
NOUNS = {"study": "study", "train": "training", "learn": "learning", "mine": "mining", "pool": "pooling study"}
"""Verbs that leave a folder of results, with the noun of what they leave."""
MARKS = {"study": "study", "pools": "pool", "learn": "learn", "mined": "mine"}
"""Verbs by a key that only their configuration has, for folders that don't name the verb."""


def write_config(storage: Storage, content: Mapping[str, Any]) -> None:
    """Write a folder's configuration."""
    body = HEAD + yaml.safe_dump(concealed_in(dict(content)), sort_keys=False, allow_unicode=True).encode()
    storage.write(CONFIG, body + _seal(body))


def read_config(storage: Storage, kind: str = "study") -> dict[str, Any]:
    """Read a folder's configuration; raise BadInput if it is damaged, or does not exist in what should be a `kind`."""
    content = storage.read(CONFIG)
    if content is None:
        raise BadInput(f"there is no {CONFIG}", storage.place, f"name the folder of a {kind}")
    body, _, last = content.removesuffix(b"\n").rpartition(b"\n")
    sealed = content.startswith(HEAD) or last.startswith(b"# CRC-32 ")  # those of old versions are not
    try:
        config = yaml.safe_load(content)
    except (yaml.YAMLError, ValueError):  # an invalid date or text
        config = None
    refuse(
        not sealed and not (isinstance(config, dict) and {*MARKS, "verb", "run", "overrides"} & config.keys()),
        "is not a file of Pyrite's",
        f"{storage.place}/{CONFIG}",
        "name another folder",
    )
    if not isinstance(config, dict) or (sealed and _seal(body + b"\n") != last + b"\n"):
        remedy = "delete this one file and give the first command again: finished results are kept"
        raise BadInput("is damaged, or was changed", f"{storage.place}/{CONFIG}", remedy)
    return config


def _seal(body: bytes) -> bytes:
    return f"# CRC-32 {zlib.crc32(body):08x}\n".encode()


def verb_of(config: Mapping[str, Any]) -> str:
    """Return the verb that wrote a configuration."""
    named = config.get("verb")
    return named if named in NOUNS else next((verb for key, verb in MARKS.items() if key in config), "train")


def resume_command(verb: str, place: str, recorded: Mapping[str, Any] | None = None) -> str:
    """Return what continues an interrupted command: `pyrite VERB --resume OUT`.

    Args:
        recorded: what its folder holds. What a folder may not decide has to be typed again, such as a trainer.
    """
    again = to_type_again(list(map(str, (recorded or {}).get("typed") or ())))
    return shlex.join(["pyrite", verb, "--resume", place, *again])


def refuse_other_files(storage: Storage, own: bool) -> None:
    """Refuse a folder with results of another command, or with files that are not `own`, of an earlier such command:
    results would replace them or mix with them. Hidden files don't count.
    """
    if storage.read(CONFIG) is not None:
        verb = verb_of(read_config(storage))
        raise BadInput(f"holds results of `pyrite {verb}`", storage.place, "choose another out=")
    names = storage.entries()
    shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    refuse(names and not own, f"holds other files ({shown})", storage.place, "choose another out=")


def refuse_repeated(folders: Sequence[Storage]) -> None:
    """Refuse one folder that is named twice."""
    known: dict[str, Storage] = {}
    for each in folders:
        first = known.setdefault(os.path.realpath(each.place) if each.local else each.place, each)
        what, remedy = "is one folder that is named twice", "name folders of different studies"
        refuse(first is not each, what, first.place, remedy)


def refuse_taken(storage: Storage) -> None:
    """Refuse a folder that holds results, with the command that continues them, or files of others."""
    if storage.read(CONFIG) is None:
        refuse_other_files(storage, EventLog.exists(storage))  # config.yaml may be deleted, to repeat its command
        return
    recorded = read_config(storage)
    verb, again = verb_of(recorded), "choose another out="
    if verb != "train":
        again = f"continue with `{resume_command(verb, storage.place, recorded)}`, or {again}"
    raise BadInput(f"holds results already, of `pyrite {verb}`", storage.place, again)


def read_config_of(verb: str, storage: Storage) -> dict[str, Any]:
    """Read the configuration of a folder whose results will be continued; refuse those of another verb."""
    noun = NOUNS[verb]
    config = read_config(storage, noun)
    what = f"was written by `pyrite {verb_of(config)}`, and not by a {noun}"
    refuse(verb_of(config) != verb, what, f"{storage}/{CONFIG}", f"name the folder of a {noun}")
    return config
