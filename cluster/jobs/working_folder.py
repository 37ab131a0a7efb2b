"""Lists the files that travel with a job, and checks that the job can read and write the paths of its command."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cluster.config.quoting import PATHS, PATHS_OR_NUMBERS, quoted
from ranking.errors import BadInput

EXCLUDES = ("/outputs", ".env")
"""Patterns that do not travel, in addition to Ray's (.git, .venv, venv, __pycache__): results, and secrets."""
MAX_BYTES = 100 * 2**20
"""Ray's job server takes no larger package."""
SEND_IGNORED = "RAY_RUNTIME_ENV_IGNORE_GITIGNORE"
"""Ray's variable that has files travel although `.gitignore` names them."""
PATH_OPTIONS = tuple(f".{name}" for name in (*PATHS, *PATHS_OR_NUMBERS, "folders", "guard.ranker", "vectors"))
"""Ends of the keys of options whose value is a path even if it has no slash and no dot."""
VARIABLES = {"PYRITE_DATA": "data", "PYRITE_CACHE": None}
"""Variables that name a folder, and the folder if the variable is not set."""
_PIECE = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s,\[\]{}()'"]++(?!\()""")
_LOCAL_URI = re.compile(r"(sqlite:///|file://)(.*)")


@dataclass(frozen=True)
class WorkingFolder:
    """The files that travel with a job, as Ray packs them.

    Args:
        path: the folder.
        sizes: bytes of each file, by its path in the folder.
        excludes: patterns of files that do not travel, for Ray's `excludes`.
        left_out: folders that do not travel although no ignore file names them, with the reason.
    """

    path: Path
    sizes: Mapping[str, int]
    excludes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @classmethod
    def of(cls, path: Path, excludes: Sequence[str] = (), limit: int = MAX_BYTES) -> WorkingFolder:
        """List the files that Ray will pack: linked folders, submodules and nested clones too.

        Ray leaves out what `.gitignore` and `.rayignore` files exclude, at every level.

        Args:
            path: the folder.
            excludes: more patterns to leave out, as in `.gitignore`.
            limit: bytes of all files together.

        Raises:
            BadInput: if there is no such folder, it is empty, or it holds too much.
        """
        from ray._private.ray_constants import get_runtime_env_default_excludes
        from ray._private.runtime_env.packaging import _dir_travel, _get_excludes

        if not path.is_dir():
            raise BadInput("there is no such folder", path, "name the working folder with --working-dir")
        sizes, patterns, left_out = dict[str, int](), [*EXCLUDES, *excludes], dict[str, str]()

        def skip(inner: Path) -> bool:
            reason = _reason_to_skip(inner) if inner != path else ""
            if reason:
                left_out[inner.relative_to(path).as_posix()] = reason
            return bool(reason)

        def add(inner: Path) -> None:
            if inner.is_file():
                sizes[inner.relative_to(path).as_posix()] = inner.stat().st_size

        ignored = _get_excludes(path, [*get_runtime_env_default_excludes(), *patterns])
        respect_gitignore, logger = os.environ.get(SEND_IGNORED, "0") != "1", logging.Logger("silent", logging.CRITICAL)
        _dir_travel(path, [ignored, skip], add, include_gitignore=respect_gitignore, logger=logger)
        if not sizes:
            raise BadInput("has no files to send", path, "does .gitignore or .rayignore exclude all of them?")
        if sum(sizes.values()) > limit:
            largest = sorted(sizes, key=lambda name: -sizes[name])[:3]
            names = ", ".join(f"{name} ({sizes[name] / 2**20:.1f} MiB)" for name in largest)
            what = f"the working folder holds more than {limit / 2**20:.0f} MiB; its largest files are {names}"
            remedy = "list what should stay in .rayignore or --exclude, or name another folder with --working-dir"
            raise BadInput(what, path, remedy)
        excluded = (*patterns, *(f"/{name}" for name in left_out))
        return cls(path, sizes, excluded, tuple(f"{name} ({why})" for name, why in left_out.items()))

    def summary(self) -> str:
        """Return the line to print before the upload."""
        size = sum(self.sizes.values()) / 2**20
        text = f"sending {len(self.sizes):,} files ({size:.1f} MiB) of {self.path}"
        return text + (f"; left out: {', '.join(self.left_out)}" if self.left_out else "")

    def has(self, name: str) -> bool:
        """Return whether a file, or something in a folder, travels."""
        return name in (".", "") or name in self.sizes or any(file.startswith(f"{name}/") for file in self.sizes)


def _reason_to_skip(path: Path) -> str:
    if path.is_symlink() and path.is_dir() and path.resolve() in [parent.resolve() for parent in path.parents]:
        return "a link to a folder that contains it"
    return "an environment of Python" if any((path / name).exists() for name in ("pyvenv.cfg", "conda-meta")) else ""


@dataclass(frozen=True)
class ClusterPaths:
    """Translates paths of this machine into paths that a job can use.

    Args:
        folder: the working folder, in whose copy the job runs.
        same_machine: whether all nodes are this machine, so that they see every path.
        shared: folders that every node has under the same path.
        start: folder that relative paths refer to.
    """

    folder: WorkingFolder
    same_machine: bool
    shared: tuple[str, ...] = ()
    start: Path = Path()

    def absolute(self, path: str) -> str:
        """Return the absolute path for a path that the user gave."""
        return os.path.abspath(os.path.join(self.start.absolute(), os.path.expanduser(path)))

    def visible(self, path: str) -> bool:
        """Return whether every node has this absolute path."""
        return self.same_machine or any(Path(path).is_relative_to(self.absolute(folder)) for folder in self.shared)

    def output(self, out: str, option: str = "out") -> str:
        """Return where the job writes its results: a URI, or an absolute path that every node sees.

        Raises:
            BadInput: if other nodes would not see the path.
        """
        if "://" in out and not out.startswith("file://"):
            return out
        path = self.absolute(out.removeprefix("file://"))
        if not self.visible(path):
            raise BadInput(
                f"{path} is a path of this machine, and results that a node writes there would be lost", option,
                "give a URI (s3://…, gs://…), or a path under a folder that every node sees, named by --shared FOLDER",
            )  # fmt: skip
        return path

    def inputs(self, overrides: Sequence[str]) -> list[str]:
        """Return the overrides with paths that the job can read.

        A path in the working folder becomes relative to it, since the job runs in a copy. URIs, and paths that do not
        exist on this machine, stay as they are, since the nodes may know them.

        Raises:
            BadInput: if a path exists on this machine only.
        """
        return [self._override(text) for text in overrides]

    def _override(self, text: str) -> str:
        key, sign, value = text.partition("=")
        whole = unquoted(value)
        if self._is_path(key, whole):  # a path may hold commas and blanks
            return f"{key}={quoted(self._input(key, whole))}"

        def piece(match: re.Match[str]) -> str:
            before, path = "", unquoted(match[0])
            if "://" not in path and ":" in path:  # a mapping, {name:path}
                before, _, path = path.rpartition(":")
                before += ":"
            return before + quoted(self._input(key, path)) if self._is_path(key, path) else match[0]

        return f"{key}{sign}{_PIECE.sub(piece, value)}"

    def _is_path(self, key: str, text: str) -> bool:
        if not text or "://" in text or _LOCAL_URI.fullmatch(text):
            return bool(_LOCAL_URI.fullmatch(text))
        named = f".{key.lstrip('+~')}".endswith(PATH_OPTIONS)
        return (named or "/" in text or "." in text) and os.path.exists(self.absolute(text))

    def _input(self, key: str, text: str) -> str:
        uri = _LOCAL_URI.fullmatch(text)
        if uri:
            return f"{uri[1]}{self.output(uri[2], key)}"
        path = self.absolute(text)
        if self.visible(path):
            return path
        if not Path(path).is_relative_to(self.folder.path):
            raise BadInput(
                f"{path} is on this machine only: it is outside the working folder {self.folder.path}", key,
                "give a URI or the path as the nodes see it (under --shared FOLDER), or move it into the folder",
            )  # fmt: skip
        name = Path(path).relative_to(self.folder.path).as_posix()
        if not self.folder.has(name):
            raise BadInput(
                f"{name} does not travel with the working folder: .gitignore, .rayignore or --exclude leaves it out",
                key, f"give a URI or a path that the nodes see, or set {SEND_IGNORED}=1 if .gitignore alone names it",
            )  # fmt: skip
        return name

    def variables(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return Pyrite's environment variables for the job: those whose folder its nodes see."""
        variables = {}
        for name, default in VARIABLES.items():
            value = environment.get(name)
            if value and "://" in value:
                variables[name] = value
            elif value or (default and Path(self.absolute(default)).is_dir()):
                path = self.absolute(value or default or "")
                if self.visible(path):
                    variables[name] = path
        return variables


def split_output(overrides: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return the value of `out=` (None if it is absent or null), and the other overrides."""
    outs = [text for text in overrides if text.partition("=")[0].lstrip("+~") == "out"]
    value = unquoted(outs[-1].partition("=")[2]) if outs else ""
    return (None if value in ("", "null") else value), [text for text in overrides if text not in outs]


def unquoted(value: str) -> str:
    """Return a value without Hydra's quotes."""
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        return re.sub(r"\\(['\"\\])", r"\1", value[1:-1])
    return value
