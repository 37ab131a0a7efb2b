"""Counts the statements of each capability, and compares docs/reference/capabilities.md with the source.

    python -m benchmarks.capabilities [--write]

The page has a row per capability: what it is, who asked for it, and where it is. Paths are patterns of files from the
root, without `.py`; a file belongs to the first row that names it. Prints the rows with their statements, and the files
that no row names; `--write` puts the counts into the page.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

SMALLEST = [""]
ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "capabilities.md"
PACKAGES = ("analysis", "cluster", "pooling", "pyrite", "ranking", "rl", "sampling")


def files() -> list[str]:
    """Return the source files, from the root and without `.py`."""
    paths = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return sorted(path.relative_to(ROOT).as_posix().removesuffix(".py") for path in paths if path.stem != "__init__")


def statements(file: str) -> int:
    """Return the number of statements of a file, without docstrings."""
    tree = ast.parse((ROOT / f"{file}.py").read_text("utf-8"))
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    return sum(not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) for node in nodes)


def rows(text: str) -> Iterator[list[str]]:
    """Yield the cells of each row of the page's table."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 4 and "`" in cells[2]:
            yield cells


def patterns(cell: str) -> list[str]:
    """Return the patterns of the column `where`."""
    return [part.strip("` ") for part in cell.split(",")]


def owners(text: str) -> dict[str, list[str]]:
    """Return the files of each capability; those that no row names have the key ""."""
    table = {cells[0]: patterns(cells[2]) for cells in rows(text)}
    found: dict[str, list[str]] = {name: [] for name in [*table, ""]}
    for file in files():
        owner = next((name for name, parts in table.items() if any(fnmatch(file, part) for part in parts)), "")
        found[owner].append(file)
    return found


def counted(text: str) -> str:
    """Return the page with the statements of each row."""
    found = owners(text)
    lines = []
    for line in text.splitlines():
        cells = next(rows(line), None)
        if cells is not None:
            line = f"| {' | '.join(cells[:3])} | {sum(map(statements, found[cells[0]])):,} |"
        lines.append(line)
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the counts into the page")
    chosen = parser.parse_args(arguments)
    text = counted(PAGE.read_text("utf-8"))
    for cells in rows(text):
        print(f"{cells[3]:>7}  {cells[0]}")
    for file in owners(text)[""]:
        print(f"in no row: {file}")
    if chosen.write:
        PAGE.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
