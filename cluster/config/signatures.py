"""Reads what a class declares of its options: names, defaults and explanations.

The source is read, not imported: a process that composes a configuration needs neither torch nor Numba.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyrite.cluster.config.parts import OURS

MISSING = "???"
"""The value of an option without a default, as OmegaConf writes it."""
SUPPLIED = frozenset({
    "params",  # a run gives these to an optimizer
    "query_words", "document_words", "folders",  # of pydocs, which would be another collection by the same name
})  # fmt: skip
"""Arguments that are not options."""


def defaults(target: str) -> dict[str, Any]:
    """Return the options of a class with their defaults; one without a default is `MISSING`.

    Args:
        target: the path of the class, as `package.module.Class`. A class that is not Pyrite's has no options here.
    """
    module, node = _class(target)
    arguments = _arguments(module, node) if node else {}
    left_out = SUPPLIED | (_fields(module, node) if node else set())
    values = {name: MISSING if value is None else _value(of, value) for name, (of, value) in arguments.items()}
    return {name: value for name, value in values.items() if name not in left_out and value is not Ellipsis}


@functools.cache
def explanations_of(target: str) -> dict[str, str]:
    """Return the text of each argument, from `Args` in the docstrings of a class and its bases."""
    module, node = _class(target)
    if node is None:
        return {}
    texts: dict[str, str] = {}
    for base in reversed(node.bases):
        texts |= explanations_of(f"{module}.{_name(base)}")
    for function in node.body:
        if isinstance(function, ast.FunctionDef) and function.name == "__init__":
            texts |= read_args(ast.get_docstring(function) or "")
    return texts | read_args(ast.get_docstring(node) or "")


def first_line(target: str) -> str:
    """Return the first sentence or line of a class's docstring."""
    _, node = _class(target)
    text = ast.get_docstring(node) if node else None
    return (text or "").split("\n\n")[0].replace("\n", " ").strip()


def read_args(docstring: str) -> dict[str, str]:
    """Return the entries of the section `Args` of a docstring, by argument.

    Args:
        docstring: a docstring, without its indentation. Entries are `name: text` or `name (type): text`, and
            `first, second: text` explains both.
    """
    section = re.search(r"^Args:\n((?:[ ]+.*(?:\n|$)|\n)+)", docstring, re.MULTILINE)
    if section is None:
        return {}
    entries: dict[str, str] = {}
    names: list[str] = []
    indent = re.match(r" *", section[1])
    width = len(indent[0]) if indent else 4
    for line in section[1].splitlines():
        start = re.match(rf" {{{width}}}(\*{{0,2}}\w+(?:, *\*{{0,2}}\w+)*)(?: *\([^)]*\))?: *(.*)", line)
        if start:
            names = [name.strip(" *") for name in start[1].split(",")]
        for name in names:
            entries[name] = " ".join([entries.get(name, ""), start[2] if start else line.strip()]).strip()
    return {name: text.rstrip(".") for name, text in entries.items() if text}


@functools.cache
def _names(module: str) -> dict[str, ast.ClassDef | ast.expr | str]:
    """Return what a module of ours defines by name: classes, values, and paths of what it imports."""
    if module.split(".")[0] != OURS:
        return {}
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return {}
    if spec is None or spec.origin is None:
        return {}
    body = ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body
    body += [inner for node in body if isinstance(node, ast.If) for inner in node.body]  # if TYPE_CHECKING
    return {name: value for node in body for name, value in _defined(node)}


def _defined(statement: ast.stmt) -> Iterator[tuple[str, ast.ClassDef | ast.expr | str]]:
    """Yield what a statement defines."""
    match statement:
        case ast.ClassDef(name=name):
            yield name, statement
        case ast.ImportFrom(module=str(module), names=aliases):
            yield from ((alias.asname or alias.name, f"{module}.{alias.name}") for alias in aliases)
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value)
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
        ):
            yield name, value


def _found(path: str) -> tuple[str, ast.ClassDef | ast.expr | None]:
    """Return the module that defines a name, and its syntax; None if it is not ours."""
    module, _, name = path.rpartition(".")
    node = _names(module).get(name)
    return _found(node) if isinstance(node, str) else (module, node)


def _class(path: str) -> tuple[str, ast.ClassDef | None]:
    module, node = _found(path)
    return module, node if isinstance(node, ast.ClassDef) else None


def _fields(module: str, node: ast.ClassDef) -> set[str]:
    """Return the arguments of a class that are no options: `FIELDS` of its bases."""
    names = {name for base in node.bases if (of := _class(f"{module}.{_name(base)}"))[1] for name in _fields(*of)}  # type: ignore[arg-type]
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and each.value and _name(each.target) == "FIELDS":
            names |= set(ast.literal_eval(each.value))
    return names


Arguments = dict[str, tuple[str, ast.expr | None]]
"""By argument the module in which its default is written, and its expression."""


def _arguments(module: str, node: ast.ClassDef) -> Arguments:
    """Return the arguments of a constructor, and the expressions of their defaults."""
    for function in node.body:
        if isinstance(function, ast.FunctionDef) and function.name == "__init__":
            return {name: (module, value) for name, value in _parameters(function.args).items()}
    inherited: Arguments = {}
    for base in reversed(node.bases):
        of_base, found = _class(f"{module}.{_name(base)}")
        inherited |= _arguments(of_base, found) if found else {}
    inherited |= {each.arg: (module, each.value) for each in node.keywords if each.arg in inherited}
    if not any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
        return inherited
    return inherited | {
        field.target.id: (module, _field_default(field.value))
        for field in node.body
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and "ClassVar" not in ast.unparse(field.annotation)
    }


def _parameters(arguments: ast.arguments) -> dict[str, ast.expr | None]:
    positional = [*arguments.posonlyargs, *arguments.args][1:]
    missing: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    pairs = [*zip(positional, [*missing, *arguments.defaults], strict=True)]
    pairs += zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return {argument.arg: default for argument, default in pairs}


def _field_default(value: ast.expr | None) -> ast.expr | None:
    if isinstance(value, ast.Call) and _name(value.func) == "field":
        return next((keyword.value for keyword in value.keywords if keyword.arg == "default"), None)
    return value


def _value(module: str, node: ast.expr) -> Any:
    """Return the value of a default as a configuration holds it; Ellipsis if it is no literal or constant."""
    if isinstance(node, ast.Name):
        module, constant = _found(f"{module}.{node.id}")
        return _value(module, constant) if isinstance(constant, ast.expr) else Ellipsis
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _part(module, node)
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return Ellipsis
    return list(value) if isinstance(value, tuple) else value


def _part(module: str, call: ast.Call) -> Any:
    """Return the configuration of a part that is a default, as `MaxMean(stay="rewarded")`."""
    of, node = _class(f"{module}.{_name(call.func)}")
    if node is None:
        return Ellipsis
    given = dict(zip(_arguments(of, node), call.args, strict=False)) | {
        str(each.arg): each.value for each in call.keywords
    }
    return {"_target_": f"{of}.{node.name}", **{name: _value(module, value) for name, value in given.items()}}


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
