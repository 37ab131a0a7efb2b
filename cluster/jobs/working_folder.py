"""Lists the files that travel with a job, and checks that the job can read and write the paths of its command."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path

from pyrite.cluster.config.override import unquoted, values_by_key, without
from pyrite.cluster.config.quoting import PATHS, PATHS_OR_NUMBERS, quoted
from pyrite.cluster.lazy import ray
from pyrite.cluster.limits import MAX_PACKAGE_BYTES
from pyrite.cluster.output.terminal import counted
from pyrite.ranking.errors import refuse

EXCLUDES = ("/outputs", ".env")
"""Patterns that do not travel, in addition to Ray's (.git, .venv, venv, __pycache__): results, and secrets."""
SEND_IGNORED = "RAY_RUNTIME_ENV_IGNORE_GITIGNORE"
"""Ray's variable that has files travel although `.gitignore` names them."""
PATH_OPTIONS = tuple(f".{name}" for name in (*PATHS, *PATHS_OR_NUMBERS, "folders", "guard.ranker", "vectors"))
"""Ends of the keys of options whose value is a path even if it has no slash and no dot."""
_PIECE = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s,\[\]{}()'"]++(?!\()""")
TRAINERS = ("trainer", "trainer.run")
"""Options with files among other words: FILE.py:FUNCTION, or a command."""
_FILE = re.compile(r"[^\s,\[\]{}()'\"=:]+\.\w+")
_LOCAL_URI = re.compile(r"(sqlite:///|file://)(.*)")


@dataclass(frozen=True)
class WorkingFolder:
    """The files that travel with a job, as Ray packs them."""

    path: Path
    sizes: Mapping[str, int]
    excludes: tuple[str, ...] = ()

    @classmethod
    def of(cls, path: Path, excludes: Sequence[str] = ()) -> WorkingFolder:
        """List the files that Ray will pack: linked folders, submodules and nested clones too.

        Ray leaves out what `.gitignore` and `.rayignore` files exclude, at every level. A link to a folder that
        contains it is left out as well, since Ray would follow it for ever. Too many bytes are refused, and no files
        if ignore files may have excluded them.
        """
        packaging, constants = ray._private.runtime_env.packaging, ray._private.ray_constants
        refuse(not path.is_dir(), "there is no such folder", path, "name the working folder with --working-dir")
        sizes, patterns = dict[str, int](), [*EXCLUDES, *excludes]

        def is_loop(inner: Path) -> bool:
            if not inner.is_symlink() or inner.resolve() not in [parent.resolve() for parent in inner.parents]:
                return False
            patterns.append(f"/{inner.relative_to(path).as_posix()}")
            return True

        def add(inner: Path) -> None:
            if inner.is_file():
                sizes[inner.relative_to(path).as_posix()] = inner.stat().st_size

        ignored = packaging._get_excludes(path, [*constants.get_runtime_env_default_excludes(), *patterns])
        respect_gitignore, logger = os.environ.get(SEND_IGNORED, "0") != "1", logging.Logger("silent", logging.CRITICAL)
        packaging._dir_travel(path, [ignored, is_loop], add, include_gitignore=respect_gitignore, logger=logger)
        _check_sizes(path, sizes, excludes)
        return cls(path, sizes, tuple(patterns))

    def summary(self) -> str:
        """Return the line to print before the upload."""
        return f"sending {counted(len(self.sizes), 'file')} ({sum(self.sizes.values()) / 2**20:.1f} MiB) of {self.path}"

    def has(self, name: str) -> bool:
        """Return whether a file, or something in a folder, travels."""
        return name == "." or any(Path(file).is_relative_to(name) for file in self.sizes)


def _check_sizes(path: Path, sizes: Mapping[str, int], excludes: Sequence[str]) -> None:
    """Refuse too many bytes, and no files if something may have excluded them.

    A folder that is empty, or holds results alone, needs to send nothing.
    """
    excluding = [name for name in (".gitignore", ".rayignore") if (path / name).is_file()]
    excluding += ["--exclude"] if excludes else []
    refuse(
        excluding and not sizes, "has no files to send", path, f"does {' and '.join(excluding)} exclude all of them?"
    )
    largest = sorted(sizes, key=lambda name: -sizes[name])[:3]
    names = ", ".join(f"{name} ({sizes[name] / 2**20:.1f} MiB)" for name in largest)
    most = f"{MAX_PACKAGE_BYTES / 2**20:.0f} MiB"
    what = f"the working folder holds more than {most}; its largest files are {names}"
    remedy = "list what should stay in .rayignore or --exclude, or name another folder with --working-dir"
    refuse(sum(sizes.values()) > MAX_PACKAGE_BYTES, what, path, remedy)


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
        """Return where the job writes its results: a URI, or an absolute path that every node sees."""
        if "://" in out and not out.startswith("file://"):
            return out
        path = self.absolute(out.removeprefix("file://"))
        refuse(
            not self.visible(path),
            f"{path} is a path of this machine, and results that a node writes there would be lost",
            option,
            "give a URI (s3://…, gs://…), or a path under a folder that every node sees, named by --shared FOLDER",
        )
        return path

    def inputs(self, overrides: Sequence[str]) -> list[str]:
        """Return the overrides with paths that the job can read; refuse paths that exist on this machine only.

        A path in the working folder becomes relative to it, since the job runs in a copy. URIs, and paths that do not
        exist on this machine, stay: the nodes may know them.
        """
        return [self._override(*text.partition("=")) for text in overrides]

    def _override(self, key: str, sign: str, value: str) -> str:
        def piece(match: re.Match[str]) -> str:
            before, colon, path = unquoted(match[0]).rpartition(":")  # a mapping, {name:path}
            if "://" in match[0]:
                before, colon, path = "", "", unquoted(match[0])
            return before + colon + quoted(self._input(key, path)) if self._is_path(key, path) else match[0]

        def file(match: re.Match[str]) -> str:
            return self._input(key, match[0]) if self._is_path(key, match[0]) else match[0]

        if key.lstrip("+") in TRAINERS:
            return f"{key}{sign}{_FILE.sub(file, value)}"
        whole = unquoted(value)
        if self._is_path(key, whole):  # a path may hold commas and blanks
            return f"{key}={quoted(self._input(key, whole))}"
        return f"{key}{sign}{_PIECE.sub(piece, value)}"

    def _is_path(self, key: str, text: str) -> bool:
        if not text or "://" in text:
            return bool(_LOCAL_URI.fullmatch(text))
        named = f".{key.lstrip('+~')}".endswith(PATH_OPTIONS)
        path = self.absolute(text)
        pattern, start = os.path.expanduser(text), self.start.absolute()
        return (named or "/" in text or "." in text) and (
            os.path.exists(path) or bool(self.visible(path) and glob(pattern, root_dir=start))
        )

    def _input(self, key: str, text: str) -> str:
        uri = _LOCAL_URI.fullmatch(text)
        if uri:
            return f"{uri[1]}{self.output(uri[2], key)}"
        path, folder = self.absolute(text), self.folder.path
        if self.visible(path):
            return path
        what = f"{path} is on this machine only: it is outside the working folder {folder}"
        remedy = "give a URI or the path as the nodes see it (under --shared FOLDER), or move it into the folder"
        refuse(not Path(path).is_relative_to(folder), what, key, remedy)
        name = Path(path).relative_to(folder).as_posix()
        what = f"{name} does not travel with the working folder: .gitignore, .rayignore or --exclude leaves it out"
        remedy = f"give a URI or a path that the nodes see, or set {SEND_IGNORED}=1 if .gitignore alone names it"
        refuse(not self.folder.has(name), what, key, remedy)
        return name

    def variables(self) -> dict[str, str]:
        """Return PYRITE_DATA and PYRITE_CACHE for the job if its nodes see these folders."""
        data = "data" if Path(self.absolute("data")).is_dir() else ""
        named = {"PYRITE_DATA": os.environ.get("PYRITE_DATA", data), "PYRITE_CACHE": os.environ.get("PYRITE_CACHE", "")}
        places = {name: place if "://" in place else self.absolute(place) for name, place in named.items() if place}
        return {name: place for name, place in places.items() if "://" in place or self.visible(place)}


def split_output(overrides: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return the value of `out=` (None if it is absent or null), and the other overrides."""
    value = unquoted(values_by_key(overrides).get("out", ""))
    return (None if value in ("", "null") else value), without(overrides, {"out"})
