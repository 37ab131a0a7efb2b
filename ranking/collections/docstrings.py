"""Extracts docstrings from Python source files, by parsing and never by importing.

Parsing is pure Python, so it is spread over processes. Each runs this file as a program that needs only the standard
library: it reads a JSON list of files from standard input, and writes one JSON line per docstring to standard output.
A plain child process, unlike a pool of `multiprocessing`, works from any parent: a script without a `__main__` guard,
a notebook, or a Ray worker.
"""

from __future__ import annotations

import ast
import gc
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

_ALONE = 2_000_000  # bytes that are parsed faster than a process starts
_MOST_PROCESSES = 8

# Statements that can contain a definition: `if TYPE_CHECKING:`, `try: … except ImportError: …` and so on.
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
_DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Docstring(NamedTuple):
    """A docstring: the number of its file, the dotted name of its object, and its text.

    `kind` is "module", "class" or "function"; the indentation of the text is cleaned.
    """

    file: int
    name: str
    kind: str
    text: str


def docstrings(files: Sequence[tuple[str, str]], alone: int = _ALONE) -> list[Docstring]:
    """Return the docstrings of many files, in the order of the files and their lines.

    Args:
        files: dotted name and path of each module.
        alone: up to this many bytes no other process is started.

    Returns:
        Nothing for a file that is not Python of this version: packages ship templates and tests of their parsers.
    """
    from pyrite.ranking.cores import cores  # not known to the program in a child process

    sizes = [os.path.getsize(path) for _, path in files]
    processes = 1 if sum(sizes) <= alone or not sys.executable else min(cores(), _MOST_PROCESSES)
    # Distributed by size, so that all processes have equal work.
    order = sorted(range(len(files)), key=sizes.__getitem__, reverse=True)
    shares = [[(number, *files[number]) for number in order[i::processes]] for i in range(processes)]
    if sum(sizes) <= alone or not sys.executable:
        extracted = [docstring for share in shares for docstring in _parsed(share)]
    else:
        with ThreadPoolExecutor(processes) as threads:
            extracted = [docstring for part in threads.map(_in_a_process, shares) for docstring in part]
    return sorted(extracted, key=lambda docstring: docstring.file)  # stable: lines stay in order


def _in_a_process(share: list[tuple[int, str, str]]) -> list[Docstring]:
    # Isolated: neither this folder nor the user's variables decide what the child imports.
    command = [sys.executable, "-I", os.path.abspath(__file__)]
    child = subprocess.run(command, input=json.dumps(share), capture_output=True, text=True, encoding="utf-8")
    if child.returncode:
        raise RuntimeError(f"the docstrings could not be parsed:\n{child.stderr}")
    return [Docstring(*json.loads(line)) for line in child.stdout.splitlines()]


def _parsed(share: Sequence[tuple[int, str, str]]) -> Iterator[Docstring]:
    for number, module, path in share:
        with open(path, "rb") as file:
            source = file.read()
        # A docstring of several lines is triple-quoted; a third of all files have none and need no parsing.
        if b'"""' not in source and b"'''" not in source:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # invalid escapes in other packages do not concern the user
                tree = ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        yield from _described(tree, module, "module", number)


def _described(node: ast.AST, name: str, kind: str, number: int) -> Iterator[Docstring]:
    if kind:
        text = ast.get_docstring(node)  # type: ignore[arg-type]
        if text:
            yield Docstring(number, name, kind, text)
    for block in _BLOCKS:
        for child in getattr(node, block, ()):
            if isinstance(child, _DEFINITIONS):
                inner = "class" if isinstance(child, ast.ClassDef) else "function"
                yield from _described(child, f"{name}.{child.name}", inner, number)
            elif hasattr(child, "body"):
                yield from _described(child, name, "", number)


def _main() -> None:
    gc.disable()  # syntax trees have no cycles; looking for them takes a fifth of the time
    for docstring in _parsed(json.load(sys.stdin)):
        sys.stdout.write(json.dumps(docstring) + "\n")


if __name__ == "__main__":
    _main()
