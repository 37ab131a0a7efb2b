"""Finds the Python source files to read docstrings from, without importing anything."""

from __future__ import annotations

import csv
import os
import re
import sys
import sysconfig
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from importlib.util import find_spec
from pathlib import Path

from pyrite.ranking.errors import BadInput

PROJECT = Path(__file__).resolve().parents[2]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_FOR_TESTS = re.compile(r"(tests?|testing|_tests|idle_test)/|(test_[^/]*|[^/]*_test|conftest)\.py$")
_NO_PACKAGES = {"site-packages", "dist-packages", "__pycache__"}
_OURS = "pyrite-ir"


@dataclass(frozen=True)
class Source:
    """A Python file and the dotted name of its module."""

    module: str
    path: Path


def standard_library() -> list[Source]:
    """Return the modules of the running Python, without its tests."""
    return _tree(Path(sysconfig.get_paths()["stdlib"]))


def tree(folder: Path) -> list[Source]:
    """Return the modules in a folder; it may be a package itself, or contain packages and modules.

    Raises:
        BadInput: if there is no such folder, or no Python in it.
    """
    modules = _tree(folder, prefix=f"{folder.name}." if (folder / "__init__.py").exists() else "")
    if not modules:
        raise BadInput("no Python files in it" if folder.is_dir() else "no such folder", folder)
    return modules


def dependencies(installed: Iterable[Distribution] | None = None) -> dict[str, Distribution]:
    """Return the installed distributions that Pyrite needs, that those need, and so on, by name and in its order.

    The requirements of an extra count if they are installed, for whatever reason. If Pyrite is not installed, its
    requirements are read from the `pyproject.toml` next to the packages, as on a cluster that received only the source.

    Args:
        installed: all distributions; those of this environment by default.
    """
    present: dict[str, Distribution] = {}
    for distribution in distributions(path=_path()) if installed is None else installed:
        present.setdefault(_normalised(distribution.name), distribution)  # the first on the path is the one in use
    here = present.get(_OURS)
    waiting = list(_required(here.requires or [] if here else _declared(PROJECT / "pyproject.toml")))
    needed: dict[str, Distribution] = {}
    while waiting:
        name = waiting.pop()
        if name in present and name not in needed and name != _OURS:
            needed[name] = present[name]
            waiting.extend(_required(present[name].requires or []))
    return dict(sorted(needed.items()))


def _path() -> list[str]:
    """Return the folders to search for packages, including the one that Ray adds to the path when it is imported.

    So the collection is the same in a process that has not imported it.
    """
    ray = find_spec("ray")
    bundled = (
        [str(Path(location) / "thirdparty_files") for location in (ray.submodule_search_locations or [])] if ray else []
    )
    return [*bundled, *(folder for folder in sys.path if folder not in bundled)]


def sources(distribution: Distribution) -> list[Source]:
    """Return the modules that a distribution installed, without its tests."""
    record = distribution.read_text("RECORD")
    # The list of files as text: importlib's objects for a hundred thousand files take seconds.
    files = [row[0] for row in csv.reader(record.splitlines()) if row] if record else map(str, distribution.files or [])
    return [
        Source(module, Path(str(distribution.locate_file(file))))
        for file in sorted(files)
        if (module := _module(file)) is not None
    ]


def _tree(folder: Path, prefix: str = "") -> list[Source]:
    modules = []
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(set(folders) - _NO_PACKAGES)
        for file in sorted(files):
            path = Path(parent, file)
            module = _module(path.relative_to(folder).as_posix(), prefix)
            if module is not None:
                modules.append(Source(module, path))
    return modules


def _module(file: str, prefix: str = "") -> str | None:
    """Return the dotted name of a module by its path; None if it is not a module, or a test."""
    if not file.endswith(".py") or _FOR_TESTS.search(file):
        return None
    parts = file.removesuffix(".py").split("/")
    if parts[-1] == "__init__":
        parts.pop()
    if not all(part.isidentifier() for part in parts):
        return None
    return f"{prefix}{'.'.join(parts)}".rstrip(".") or None


def _required(requirements: Iterable[str]) -> Iterator[str]:
    """Yield the names in requirements such as `fsspec[http]>=2024; extra == "data"`."""
    for requirement in requirements:
        name = _NAME.match(requirement.strip())
        if name:
            yield _normalised(name.group())


def _declared(pyproject: Path) -> list[str]:
    if not pyproject.exists():
        return []
    project: Mapping[str, object] = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    needed = list(project.get("dependencies", []))  # type: ignore[call-overload]
    extras: Mapping[str, list[str]] = project.get("optional-dependencies", {})  # type: ignore[assignment]
    return [*needed, *(requirement for extra in extras.values() for requirement in extra)]


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
