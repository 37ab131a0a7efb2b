"""Extracts docstrings from Python source files, by reading bytecode or parsing, and never by importing.

The bytecode that Python has cached of a module holds the same docstrings and is read nine times as fast as its source
is parsed. A source without it is parsed. Both are pure Python, so they are spread over processes. Each runs this file
as a program that needs only the standard library: it reads a JSON list of files from standard input, and writes one
JSON line per docstring to standard output.
A plain child process, unlike a pool of `multiprocessing`, works from any parent: a script without a `__main__` guard,
a notebook, or a Ray worker.
"""

from __future__ import annotations

import ast
import dis
import gc
import importlib.util
import inspect
import itertools
import json
import marshal
import os
import re
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from types import CodeType
from typing import NamedTuple

_ALONE = 2_000_000  # bytes that are parsed faster than a process starts
_MOST_PROCESSES = 8

_DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_LOAD_CONST = dis.opmap["LOAD_CONST"]
_HAS_DOCSTRING = 0x4000000  # a flag of functions since Python 3.13; before, a function's first constant is None or it
_TYPE_PARAMETERS = "<generic parameters of "  # code around a definition with type parameters, since Python 3.12


class Docstring(NamedTuple):
    """A docstring: the number of its file, the dotted name of its object, and its text.

    `kind` is "module", "class" or "function"; the indentation of the text is cleaned. `code` is that of a function
    without its docstring, if it was requested.
    """

    file: int
    name: str
    kind: str
    text: str
    code: str = ""


def docstrings(
    files: Sequence[tuple[str, str]], alone: int = _ALONE, bytecode: bool = True, code: bool = False
) -> list[Docstring]:
    """Return the docstrings of many files, in the order of the files and their lines.

    Args:
        files: dotted name and path of each module.
        alone: up to this many bytes no other process is started.
        bytecode: whether to read the bytecode that Python has cached of a file, if it is that of the file as it is. The
            docstrings are the same. Only for files of installed packages: Python would run the bytecode of these too.
        code: whether to extract functions alone, each with its code; files are then parsed.

    Returns:
        Nothing for a file that is not Python of this version: packages ship templates and tests of their parsers.
    """
    from pyrite.ranking.cores import cores  # not known to the program in a child process

    tasks = [(number, *file, bytecode and not code, code) for number, file in enumerate(files)]
    sizes = {task: os.path.getsize(task[2]) for task in tasks}
    if sum(sizes.values()) <= alone or not sys.executable:
        return list(_extracted(tasks))
    # Distributed by size, so that all processes have equal work.
    ordered = sorted(tasks, key=sizes.__getitem__, reverse=True)
    processes = min(cores(), _MOST_PROCESSES)
    with ThreadPoolExecutor(processes) as threads:
        parts = threads.map(_in_a_process, (ordered[share::processes] for share in range(processes)))
        extracted = itertools.chain.from_iterable(parts)
        return sorted(extracted, key=lambda docstring: docstring.file)  # stable: lines stay in order


def _in_a_process(share: list[tuple[int, str, str, bool, bool]]) -> list[Docstring]:
    # Isolated: neither this folder nor the user's variables decide what the child imports.
    command = [sys.executable, "-I", os.path.abspath(__file__)]
    child = subprocess.run(command, input=json.dumps(share), capture_output=True, text=True, encoding="utf-8")
    if child.returncode:
        raise RuntimeError(f"the docstrings could not be parsed:\n{child.stderr}")
    return [Docstring(*json.loads(line)) for line in child.stdout.splitlines()]


def _extracted(share: Iterable[tuple[int, str, str, bool, bool]]) -> Iterator[Docstring]:
    for number, module, path, bytecode, functions in share:
        with open(path, "rb") as file:
            source = file.read()
        # A docstring of several lines is triple-quoted; a third of all files have none and need no reading.
        if b'"""' not in source and b"'''" not in source:
            continue
        if functions:
            # Line breaks as Python counts them: `splitlines` also breaks at form feeds, U+2028 and others.
            lines = re.split(r"\r\n|\r|\n", source.decode("utf-8", "replace"))
            yield from _functions(number, _tree(source), module, lines)
            continue
        code = (_cached_bytecode(path) if bytecode else None) or _compiled(source)
        found = _of_code(code, module, "module")
        for _, name, kind, text in sorted(found, key=lambda one: one[0]):  # stable: by the lines of the definitions
            yield Docstring(number, name, kind, text)


def _cached_bytecode(path: str) -> CodeType | None:
    """Return the bytecode that Python has cached of a source file, if it was compiled from the file as it is."""
    try:
        with open(importlib.util.cache_from_source(path, optimization=""), "rb") as file:
            header, body = file.read(16), file.read()
        stat = os.stat(path)
        # Flags of 0: the source's time and size follow. Bytecode that is checked by a hash is rare, and then parsed.
        expected = (
            bytes(4) + int(stat.st_mtime).to_bytes(8, "little")[:4] + (stat.st_size & 0xFFFFFFFF).to_bytes(4, "little")
        )
        if header[:4] != importlib.util.MAGIC_NUMBER or header[4:] != expected:
            return None
        code = marshal.loads(body)
    except (OSError, EOFError, ValueError, TypeError, NotImplementedError):  # the last: a Python without a cache
        return None
    return code if isinstance(code, CodeType) else None


def _of_code(code: CodeType, name: str, kind: str) -> Iterator[tuple[int, str, str, str]]:
    """Yield first line, name, kind and docstring of a module's, class's or function's bytecode and of those in it."""
    text = _function_docstring(code) if kind == "function" else _body_docstring(code)
    if text and (cleaned := inspect.cleandoc(text)):
        yield 0 if kind == "module" else code.co_firstlineno, name, kind, cleaned
    for inner in _loaded_code(code):
        if inner.co_name.startswith(_TYPE_PARAMETERS):
            inner = next(_loaded_code(inner))
        if not inner.co_name.startswith("<"):  # neither a lambda nor a comprehension
            is_function = inner.co_flags & inspect.CO_OPTIMIZED
            yield from _of_code(inner, f"{name}.{inner.co_name}", "function" if is_function else "class")


def _loaded_code(code: CodeType) -> Iterator[CodeType]:
    """Yield the code among the constants that is used. Python 3.11 keeps that of blocks which never run, as `if 0:`."""
    if not any(isinstance(constant, CodeType) for constant in code.co_consts):
        return
    numbers, extended = set(), 0
    for operation, argument in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        if operation == _LOAD_CONST:
            numbers.add(extended | argument)
        extended = (extended | argument) << 8 if operation == dis.EXTENDED_ARG else 0
    for number in sorted(numbers):
        constant = code.co_consts[number] if number < len(code.co_consts) else None  # a cache may look like a load
        if isinstance(constant, CodeType):
            yield constant


def _function_docstring(code: CodeType) -> str | None:
    if sys.version_info >= (3, 13) and not code.co_flags & _HAS_DOCSTRING:
        return None
    first = code.co_consts[0] if code.co_consts else None
    return first if isinstance(first, str) else None


def _body_docstring(code: CodeType) -> str | None:
    """Return what a module or class stores first as `__doc__`, unless by an assignment, whose target has a position."""
    instructions = dis.get_instructions(code) if "__doc__" in code.co_names else ()
    for before, instruction in itertools.pairwise(instructions):
        if instruction.argval == "__doc__" and instruction.opname in ("STORE_NAME", "STORE_GLOBAL"):
            is_text = before.opname == "LOAD_CONST" and isinstance(before.argval, str)
            place = instruction.positions
            assigned = place is not None and place.lineno is not None and place != before.positions
            return before.argval if is_text and not assigned else None
    return None


@contextmanager
def _no_python() -> Iterator[None]:
    """A context that passes over a source that is not Python of this version."""
    with warnings.catch_warnings(), suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        warnings.simplefilter("ignore")  # invalid escapes in other packages do not concern the user
        yield


def _compiled(source: bytes) -> CodeType:
    """Compile a source; an empty module for one that is not Python of this version."""
    with _no_python():
        return compile(source, "<source>", "exec", dont_inherit=True, optimize=0)
    return compile("", "<source>", "exec")


def _tree(source: bytes) -> ast.AST:
    """Parse a source; an empty module for one that is not Python of this version."""
    with _no_python():
        return ast.parse(source)
    return ast.Module([], [])


def _functions(number: int, node: ast.AST, name: str, lines: Sequence[str]) -> Iterator[Docstring]:
    """Yield the functions in a module or class, and those in them, that have a docstring and code after it."""
    for child in ast.iter_child_nodes(node):
        inner = f"{name}.{child.name}" if isinstance(child, _DEFINITIONS) else name
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and (text := ast.get_docstring(child)):
            first, *rest = child.body
            if rest and first.lineno > child.lineno:
                code = [*lines[child.lineno - 1 : first.lineno - 1], *lines[first.end_lineno : child.end_lineno]]
                yield Docstring(number, inner, "function", text, textwrap.dedent("\n".join(code)))
        yield from _functions(number, child, inner, lines)


def _main() -> None:
    gc.disable()  # syntax trees have no cycles; looking for them takes a fifth of the time
    for docstring in _extracted(json.load(sys.stdin)):
        sys.stdout.write(json.dumps(docstring) + "\n")


if __name__ == "__main__":
    _main()
