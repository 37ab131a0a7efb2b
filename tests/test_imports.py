"""Imports run one way: cluster → rl → sampling → ranking, and cluster → pooling → ranking."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAY_IMPORT = {
    "ranking": set(),
    "sampling": {"ranking"},
    "pooling": {"ranking"},
    "rl": {"sampling", "ranking"},
    "cluster": {"rl", "sampling", "pooling", "ranking"},
}
WITHOUT_RAY = {"ranking", "sampling", "pooling"}


def imported(source: str) -> set[str]:
    """First parts of all that a file imports, also inside functions and for type checkers alone."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {name.name.split(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(str(node.module).split(".")[0])
    return found


def faults(package: str, source: str) -> set[str]:
    """What a file of the package imports and must not."""
    forbidden = MAY_IMPORT.keys() - MAY_IMPORT[package] - {package}
    return imported(source) & (forbidden | ({"ray"} if package in WITHOUT_RAY else set()))


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_run_one_way(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    wrong = {str(file.relative_to(ROOT)): faults(package, file.read_text("utf-8")) for file in files}
    assert not {file: names for file, names in wrong.items() if names}


def test_the_rule_is_seen_to_be_broken() -> None:
    hidden = "def f():\n    if TYPE_CHECKING:\n        from {} import x\n"
    assert faults("ranking", hidden.format("sampling.guard")) == {"sampling"}
    assert faults("sampling", hidden.format("ray.tune")) == {"ray"}
    assert faults("pooling", "import rl.policy as p, ranking") == {"rl"}
    assert faults("rl", hidden.format("ray.rllib")) == set()


BELOW = {
    "telemetry": {"output", "config"},
    "index": {"runs", "telemetry", "output", "plan", "config"},
    "training": {"index", "runs", "telemetry", "output", "plan", "config"},
    "jobs": {"output", "config"},
}
"""Rooms of cluster/ that run on Ray's actors, workers and jobs, and the rooms below them."""


@pytest.mark.parametrize("room", BELOW)
def test_rooms_of_actors_and_workers_import_from_below(room: str) -> None:
    wrong = {}
    for file in (ROOT / "cluster" / room).rglob("*.py"):
        found = re.findall(r"^\s*(?:from|import) cluster\.(\w+)", file.read_text("utf-8"), re.MULTILINE)
        if others := set(found) - BELOW[room] - {room}:
            wrong[file.name] = others
    assert not wrong


def test_a_run_knows_neither_index_actors_nor_workers() -> None:
    for file in (ROOT / "cluster" / "runs").rglob("*.py"):
        assert not re.search(r"cluster\.(index|training|tune)\b.* import", file.read_text("utf-8")), file
