"""Docstrings of Python source files, found by parsing and never by importing.

A program of its own that needs nothing but the standard library: parsing is all Python, so `pydocs` runs several
of these beside each other. It reads a JSON list of [module, path] from standard input and writes one JSON line
[module, name, kind, docstring] for each docstring to standard output, in the order of the files and their lines.
A plain child process, unlike a pool of `multiprocessing`, does not care who started it: a script without a
`__main__` guard, a notebook or a Ray worker.
"""

from __future__ import annotations

import ast
import gc
import json
import sys
import warnings
from collections.abc import Iterator

# Statements that can hold a definition: `if TYPE_CHECKING:`, `try: … except ImportError: …` and the like.
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
_DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def docstrings(path: str, module: str) -> Iterator[tuple[str, str, str]]:
    """The docstrings of one file.

    Args:
        path: a Python source file.
        module: its dotted name.

    Yields:
        (dotted name of what is described, "module", "class" or "function", docstring with its indentation cleaned).
        Nothing for a file that is not Python of this version: packages ship templates and tests of their parsers.
    """
    with open(path, "rb") as file:
        source = file.read()
    # A docstring of two paragraphs is triple-quoted; a third of all files hold no such thing and need no parsing.
    if b'"""' not in source and b"'''" not in source:
        return
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    yield from _described(tree, module, "module")


def _described(node: ast.AST, name: str, kind: str) -> Iterator[tuple[str, str, str]]:
    if kind:
        text = ast.get_docstring(node)  # type: ignore[arg-type]
        if text:
            yield name, kind, text
    for block in _BLOCKS:
        for child in getattr(node, block, ()):
            if isinstance(child, _DEFINITIONS):
                inner = "class" if isinstance(child, ast.ClassDef) else "function"
                yield from _described(child, f"{name}.{child.name}", inner)
            elif hasattr(child, "body"):
                yield from _described(child, name, "")


def main() -> None:
    """Answer one request: files in, docstrings out."""
    warnings.simplefilter("ignore")  # other people's invalid escapes are no news of ours
    gc.disable()  # syntax trees hold no cycles; looking for them costs a fifth of the time
    for module, path in json.load(sys.stdin):
        for found in docstrings(path, module):
            sys.stdout.write(json.dumps([module, *found]) + "\n")


if __name__ == "__main__":
    main()
