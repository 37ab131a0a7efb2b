"""Imports run one way: cluster → rl → sampling → ranking, and cluster → analysis → pooling → ranking."""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAY_IMPORT = {
    "ranking": set(),
    "sampling": {"ranking"},
    "pooling": {"ranking"},
    "rl": {"sampling", "ranking"},
    "analysis": {"pooling", "ranking"},
    "cluster": {"rl", "sampling", "analysis", "pooling", "ranking"},
}
WITHOUT_RAY = {"ranking", "sampling", "pooling", "analysis"}


@functools.cache
def imported(source: str) -> set[str]:
    """Modules that a file imports, and with them the names, also inside functions and for type checkers alone."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return found


def packages_of(source: str) -> set[str]:
    """The packages that a file imports: those of ours by their names within `pyrite`, others by their first part.

    A library that a `lazy` module names is one of them: `from pyrite.cluster.lazy import ray`.
    """
    parts = [name.split(".") for name in imported(source)]
    late = {name[-1] for name in parts if name[-2:-1] == ["lazy"]}
    return late | {name[1] if name[0] == "pyrite" and len(name) > 1 else name[0] for name in parts}


def faults(package: str, source: str) -> set[str]:
    """What a file of the package imports and must not."""
    forbidden = MAY_IMPORT.keys() - MAY_IMPORT[package] - {package}
    return packages_of(source) & (forbidden | ({"ray"} if package in WITHOUT_RAY else set()))


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_run_one_way(package):
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    wrong = {str(file.relative_to(ROOT)): faults(package, file.read_text("utf-8")) for file in files}
    assert not {file: names for file, names in wrong.items() if names}


def test_the_rule_is_seen_to_be_broken():
    hidden = "def f():\n    if TYPE_CHECKING:\n        from {} import x\n"
    assert faults("ranking", hidden.format("pyrite.sampling.guard")) == {"sampling"}
    assert faults("sampling", hidden.format("ray.tune")) == {"ray"}
    assert faults("ranking", "from pyrite.ranking.lazy import ray, torch") == {"ray"}
    assert faults("pooling", "import pyrite.rl.policy as p, pyrite.ranking") == {"rl"}
    assert faults("rl", hidden.format("ray.rllib")) == set()


FLOORS = (
    "lazy", "limits", "config", "output", "executors", "plan", "telemetry", "runs", "pools", "index", "training",
    "mining", "rollouts", "reports", "search", "jobs", "commands",
)  # fmt: skip
"""The rooms of cluster/, from the bottom up: each imports from those before it alone."""
NO_RAY = {"config", "output", "plan", "reports"}
"""Rooms that name Ray nowhere."""


def rooms_of(source: str) -> set[str]:
    """The rooms of cluster/ that a file imports."""
    return {name.split(".")[2] for name in imported(source) if name.startswith("pyrite.cluster.")}


def room(file: Path) -> str:
    return file.relative_to(ROOT / "cluster").parts[0].removesuffix(".py")


def test_rooms_of_cluster_import_downward():
    files = [file for file in sorted((ROOT / "cluster").rglob("*.py")) if room(file) in FLOORS]
    assert {room(file) for file in files} == set(FLOORS)
    wrong = []
    for file in files:
        source, own = file.read_text("utf-8"), FLOORS.index(room(file))
        for other in rooms_of(source):
            if other not in FLOORS or FLOORS.index(other) > own:
                wrong.append(f"{file.relative_to(ROOT)} imports {other}")
        if room(file) in NO_RAY and "ray" in packages_of(source):
            wrong.append(f"{file.relative_to(ROOT)} imports ray")
    assert not wrong, wrong


def test_every_folder_of_cluster_is_a_known_room():
    there = {path.name for path in (ROOT / "cluster").iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert there <= set(FLOORS), there - set(FLOORS)


def modules() -> dict[str, set[str]]:
    """What each module imports of ours, also inside functions and for type checkers alone."""
    named = {}
    for package in MAY_IMPORT:
        for file in sorted((ROOT / package).rglob("*.py")):
            dotted = ".".join(("pyrite", *file.relative_to(ROOT).with_suffix("").parts))
            named[dotted.removesuffix(".__init__")] = file
    return {name: imported(file.read_text("utf-8")) & named.keys() for name, file in named.items()}


def circle(imports: Mapping[str, set[str]]) -> list[str]:
    """Modules that import each other in a circle, the first one again at its end; none where there is no circle."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_modules_import_each_other_in_a_circle():
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})
    imports = modules()
    assert "pyrite.sampling.relevant_pairs" in imports["pyrite.sampling.guard"]
    assert not circle(imports)
