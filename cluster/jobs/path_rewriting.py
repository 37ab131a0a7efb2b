"""Rewrites paths in a job's overrides, and refuses those that the nodes of the cluster can't read."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ranking.errors import BadInput

INPUTS = {"study": ("data",), "train": (), "learn": (), "pool": ("runs", "qrels", "pools", "groups", "machine")}
"""Options that name files or folders, besides `cache` and those whose last part is in `PARTS`, as `collection.path`."""
PARTS = ("path", "checkpoint")
VARIABLES = {"PYRITE_DATA": "data", "PYRITE_CACHE": None}
"""Variables that name a folder, and the folder where one is not set."""
_PIECE = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s,\[\]{}()'"]++(?!\()""")
_PLAIN = re.compile(r"[A-Za-z0-9_./:%@+*?|$\\-]+")


@dataclass(frozen=True)
class NodeFileView:
    """Which files of this machine the nodes of a cluster can read.

    Args:
        here: whether all of them are this machine, so that they see everything.
        shared: folders that every node has under the same path.
        stand: where the user stands: relative paths begin there.
    """

    here: bool
    shared: tuple[str, ...] = ()
    stand: str = ""

    def absolute(self, path: str) -> str:
        """The whole path of what the user calls so."""
        return os.path.abspath(os.path.join(self.stand or os.getcwd(), os.path.expanduser(path)))

    def sees(self, path: str) -> bool:
        """Whether every node has this absolute path."""
        return self.here or any(Path(path).is_relative_to(self.absolute(folder)) for folder in self.shared)


def place_output(out: str, view: NodeFileView, option: str = "out") -> str:
    """An output folder as the job is to write it: a URI, or the whole path of a folder that every node sees.

    Raises:
        BadInput: where other nodes can't see it.
    """
    if "://" in out and not out.startswith("file://"):
        return out
    path = view.absolute(out.removeprefix("file://"))
    if not view.sees(path):
        raise BadInput(
            f"{path} may not be there on other nodes of the cluster, whose results would be lost", option,
            "give a URI (s3://…, gs://…), or name a folder that every node sees by --shared FOLDER and write under it",
        )  # fmt: skip
    return path


def place_inputs(verb: str, overrides: Sequence[str], view: NodeFileView) -> list[str]:
    """Overrides in which each relative path of a file that is here stands as a whole path.

    Whole paths, URIs and names of what is not here are left as they are: the nodes may know them.

    Raises:
        BadInput: where a relative path names a file that the nodes can't see.
    """
    return [_placed(text, view) if _names_files(verb, text) else text for text in overrides]


def split_output(overrides: Sequence[str]) -> tuple[str | None, list[str]]:
    """The value of `out=`, None where it is not given or null, and the other overrides."""
    own = [text for text in overrides if _key(text) == "out"]
    value = _unquoted(own[-1].partition("=")[2]) if own else ""
    return (None if value in ("", "null") else value), [text for text in overrides if text not in own]


def written(key: str, path: str) -> str:
    """The override that gives a path, in quotes where Hydra needs them."""
    return f"{key}={_quoted(path)}"


def variables(environment: Mapping[str, str], view: NodeFileView) -> dict[str, str]:
    """Pyrite's own variables that the job is to have as well: those that name what its nodes see."""
    found = {}
    for name, usual in VARIABLES.items():
        given = environment.get(name)
        if given and "://" in given:
            found[name] = given
        elif given or (usual and Path(view.absolute(usual)).is_dir()):
            path = view.absolute(given or usual or "")
            if view.sees(path):
                found[name] = path
    return found


def _key(text: str) -> str:
    return text.partition("=")[0].lstrip("+~")


def _names_files(verb: str, text: str) -> bool:
    key = _key(text)
    return key in (*INPUTS[verb], "cache") or ("." in key and key.rpartition(".")[2] in PARTS)


def _placed(text: str, view: NodeFileView) -> str:
    key, _, value = text.partition("=")
    whole = _unquoted(value)
    if key in ("data", "cache") and view.here and whole not in ("", "null") and "://" not in whole:
        return written(key, view.absolute(whole))
    if _is_here(whole, view):
        return written(key, _seen(key, whole, view))

    def place(piece: re.Match[str]) -> str:
        name = _unquoted(piece[0])
        return _quoted(_seen(key, name, view)) if _is_here(name, view) else piece[0]

    return f"{key}={_PIECE.sub(place, value)}"


def _is_here(name: str, view: NodeFileView) -> bool:
    """Whether this is a relative path of something that exists."""
    relative = name and "://" not in name and not os.path.isabs(name)
    return bool(relative) and os.path.exists(view.absolute(name))


def _seen(key: str, name: str, view: NodeFileView) -> str:
    path = view.absolute(name)
    if not view.sees(path):
        remedy = "give the path as the nodes see it, or name the folder that every node sees by --shared FOLDER"
        raise BadInput(f"{name} lies on this machine, and the cluster has others", key, remedy)
    return path


def _unquoted(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        return re.sub(r"\\(['\"\\])", r"\1", value[1:-1])
    return value


def _quoted(path: str) -> str:
    if _PLAIN.fullmatch(path):
        return path
    return "'" + path.replace("'", r"\'") + "'"
