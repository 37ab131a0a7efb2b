"""Reads what a class declares of its options: names, defaults and explanations.

The source is read, not imported: a process that composes a configuration needs neither torch nor Numba.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
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
SECTION = re.compile(r"^Args:\n((?: +.*(?:\n|$)|\n)+)", re.MULTILINE)
"""The section `Args` of a docstring."""
ENTRY = re.compile(
    r"^(?P<indent> +)(?P<names>\*{0,2}\w+(?:, *\*{0,2}\w+)*)(?: *\([^)\n]*\))?: *"
    r"(?P<text>.*(?:\n(?:(?P=indent) .*| *$))*)",
    re.MULTILINE,
)
"""An entry of the section, with its lines that are indented further."""
NOT_GIVEN = ast.Constant(MISSING)
"""The default of an argument without one."""
UNKNOWN = ast.Constant(...)
"""What a name stands for that is not of ours, and the default whose value is known only when it is computed."""
Arguments = dict[str, tuple[str, ast.expr]]
"""By argument the module in which its default is written, and its expression."""


def defaults(target: str) -> dict[str, Any]:
    """Return the options of a class with their defaults; one without a default is `MISSING`.

    Args:
        target: the path of the class, as `package.module.Class`. A class that is not Pyrite's has no options here.
    """
    sources = lineage(target)
    left_out = SUPPLIED.union(*(source.fields_of_base for source in sources))
    values = {name: _value(*default) for name, default in _arguments(sources).items() if name not in left_out}
    return {name: value for name, value in values.items() if value is not Ellipsis}


@functools.cache
def explanations_of(target: str) -> dict[str, str]:
    """Return the text of each argument, from `Args` in the docstrings of a class and its bases."""
    texts: dict[str, str] = {}
    for docstring in chain.from_iterable(source.docstrings for source in lineage(target)):
        texts |= read_args(docstring)
    return texts


def first_line(target: str) -> str:
    """Return the first sentence or line of a class's docstring."""
    text = "".join(source.docstrings[-1] for source in lineage(target)[-1:])
    return text.split("\n\n")[0].replace("\n", " ").strip()


def read_args(docstring: str) -> dict[str, str]:
    """Return the entries of the section `Args` of a docstring, by argument.

    Args:
        docstring: a docstring, without its indentation. Entries are `name: text` or `name (type): text`, and
            `first, second: text` explains both.
    """
    return {
        name.strip(" *"): " ".join(entry["text"].split()).rstrip(".")
        for section in SECTION.findall(docstring)
        for entry in ENTRY.finditer(section)
        for name in entry["names"].split(",")
    }


@dataclass(frozen=True)
class DeclaredClass:
    """A class of ours, as the file of a module declares it."""

    module: str
    node: ast.ClassDef

    @property
    def constructor(self) -> list[ast.FunctionDef]:
        """Its own constructor; empty if it has none."""
        return [each for each in self.node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]

    @property
    def docstrings(self) -> list[str]:
        """The docstrings of its constructor, if it has one, and of the class."""
        nodes: list[ast.FunctionDef | ast.ClassDef] = [*self.constructor, self.node]
        return [ast.get_docstring(each) or "" for each in nodes]

    @property
    def annotated(self) -> dict[str, ast.AnnAssign]:
        """Its annotated attributes, by name."""
        return {_name(each.target): each for each in self.node.body if isinstance(each, ast.AnnAssign)}

    @property
    def fields_of_base(self) -> list[str]:
        """Arguments that have another place in the configuration than among its options: `FIELDS`."""
        named = self.annotated.get("FIELDS")
        return list(ast.literal_eval(named.value)) if named and named.value else []

    def arguments(self, inherited: Arguments) -> Arguments:
        """Return the arguments of its constructor, with the expressions of their defaults.

        Args:
            inherited: those of the constructors of its bases.
        """
        for function in self.constructor:
            return {name: (self.module, value) for name, value in _parameters(function.args).items()}
        given = {keyword.arg: keyword.value for keyword in self.node.keywords}
        if any("dataclass" in ast.unparse(decorator) for decorator in self.node.decorator_list):
            fields = {name: each for name, each in self.annotated.items() if "ClassVar" not in ast.unparse(each)}
            given |= {name: _field_default(each.value) for name, each in fields.items()}
        return inherited | {str(name): (self.module, value) for name, value in given.items()}


@functools.cache
def lineage(path: str) -> tuple[DeclaredClass, ...]:
    """Return the bases of a class, the nearest last, and the class; nothing if it is not ours."""
    module, node = _found(path)
    if not isinstance(node, ast.ClassDef):
        return ()
    bases = [lineage(f"{module}.{_name(base)}") for base in reversed(node.bases)]
    return (*chain.from_iterable(bases), DeclaredClass(module, node))


def _arguments(sources: Iterable[DeclaredClass]) -> Arguments:
    """Return the arguments of the constructor of the last of some classes, each of which inherits from those before."""
    return functools.reduce(lambda inherited, source: source.arguments(inherited), sources, Arguments())


@functools.cache
def _names(module: str) -> dict[str, ast.ClassDef | ast.expr | str]:
    """Return what a module of ours defines by name: classes, values, and paths of what it imports."""
    spec = None
    with suppress(ModuleNotFoundError):  # if it is in no package
        spec = importlib.util.find_spec(module) if module.startswith(f"{OURS}.") else None
    if spec is None or spec.origin is None:
        return {}
    return dict(_defined(ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body))


def _defined(statements: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.ClassDef | ast.expr | str]]:
    """Yield what statements define."""
    for statement in statements:
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


def _found(path: str) -> tuple[str, ast.ClassDef | ast.expr]:
    """Return the module that defines a name, and its syntax: a class, or an expression."""
    module, _, name = path.rpartition(".")
    node = _names(module).get(name, UNKNOWN)
    return _found(node) if isinstance(node, str) else (module, node)


def _parameters(arguments: ast.arguments) -> dict[str, ast.expr]:
    positional = [*arguments.posonlyargs, *arguments.args][1:]
    missing = [None] * (len(positional) - len(arguments.defaults))
    values: list[ast.expr | None] = [*missing, *arguments.defaults, *arguments.kw_defaults]
    pairs = zip([*positional, *arguments.kwonlyargs], values, strict=True)
    return {argument.arg: default or NOT_GIVEN for argument, default in pairs}


def _field_default(value: ast.expr | None) -> ast.expr:
    match value:
        case ast.Call(func=ast.Name(id="field"), keywords=keywords):
            return next((keyword.value for keyword in keywords if keyword.arg == "default"), NOT_GIVEN)
    return value or NOT_GIVEN


def _value(module: str, node: ast.AST) -> Any:
    """Return the value of a default as a configuration holds it; Ellipsis if it is no literal or constant."""
    match node:
        case ast.Name(id=name):
            return _value(*_found(f"{module}.{name}"))
        case ast.Call(func=ast.Name(id=name)):
            return _part(module, node, lineage(f"{module}.{name}"))
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return Ellipsis
    return list(value) if isinstance(value, tuple) else value


def _part(module: str, call: ast.Call, sources: tuple[DeclaredClass, ...]) -> Any:
    """Return the configuration of a part that is a default, as `MaxMean(stay="rewarded")`; Ellipsis if it is none."""
    if not sources:
        return Ellipsis
    given = dict(zip(_arguments(sources), call.args, strict=False))
    given |= {str(keyword.arg): keyword.value for keyword in call.keywords}
    target = f"{sources[-1].module}.{sources[-1].node.name}"
    return {"_target_": target, **{name: _value(module, value) for name, value in given.items()}}


def _name(node: ast.expr) -> str:
    """Return the last name of an expression: `Base` of `Base`, `module.Base` and `Base[Any]`."""
    return ast.unparse(node).partition("[")[0].rpartition(".")[2]
