"""Finds the Python source files to read docstrings from, without importing anything."""

from __future__ import annotations

import csv
import os
import re
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path

from pyrite.ranking.errors import refuse

# The packages of the built-in collection, which every installation has, whatever else it has: a change of this list
# changes the collection.
PACKAGES = (
    "fonttools", "fsspec", "huggingface-hub", "joblib", "matplotlib", "mpmath", "networkx", "numba", "numpy",
    "pandas", "pillow", "polars", "pyarrow", "pydantic", "pyparsing", "ray", "requests", "rich", "scikit-learn",
    "scipy", "sympy", "torch", "transformers",
)  # fmt: skip
_FOR_TESTS = re.compile(r"(tests?|testing|_tests|idle_test)/|(test_[^/]*|[^/]*_test|conftest)\.py$")
_NO_PACKAGES = {"site-packages", "dist-packages", "__pycache__"}


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
    refuse(not modules, "no Python files in it" if folder.is_dir() else "no such folder", folder)
    return modules


def installed(path: Sequence[str] | None = None) -> dict[str, Distribution]:
    """Return those of `PACKAGES` that are installed, by name.

    Args:
        path: the folders to search; `sys.path` by default.
    """
    by_name = {name: next(iter(distributions(name=name, path=[*(path or sys.path)])), None) for name in PACKAGES}
    return {name: one for name, one in by_name.items() if one is not None}


def sources(distribution: Distribution) -> list[Source]:
    """Return the modules that a distribution installed, without its tests."""
    record = distribution.read_text("RECORD")
    # The list of files as text: importlib's objects for a hundred thousand files take seconds.
    rows = (
        filter(None, csv.reader(record.splitlines())) if record else ([str(file)] for file in distribution.files or [])
    )
    files = sorted(file for file, *_ in rows)
    return [Source(_module(file), Path(str(distribution.locate_file(file)))) for file in files if _module(file)]


def _tree(folder: Path, prefix: str = "") -> list[Source]:
    modules = []
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(set(folders) - _NO_PACKAGES)
        for file in sorted(files):
            path = Path(parent, file)
            modules.append(Source(_module(path.relative_to(folder).as_posix(), prefix), path))
    return [source for source in modules if source.module]


def _module(file: str, prefix: str = "") -> str:
    """Return the dotted name of a module by its path; empty if it is not a module, or a test."""
    path = re.sub(r"(^|/)__init__\.py$|\.py$", "", file)
    parts = path.split("/") if path else []
    is_module = file.endswith(".py") and not _FOR_TESTS.search(file) and all(map(str.isidentifier, parts))
    return f"{prefix}{'.'.join(parts)}".rstrip(".") if is_module else ""
