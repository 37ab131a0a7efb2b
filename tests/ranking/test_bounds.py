"""Tests that constructors check arguments against the bounds and choices of their annotations."""

import ast
import pickle
import re
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pytest

from pyrite.ranking.bounds import AtLeast, Between, Fraction, NonNegative, Positive, checked
from pyrite.ranking.errors import BadInput

ROOT = Path(__file__).parents[2]


class Example:
    """A part with an argument of every kind."""

    @checked
    def __init__(
        self,
        rate: Annotated[float, Positive] = 1.0,
        share: Annotated[float, Fraction] = 0.5,
        below_one: Annotated[float, Between(0, 1, exclude="high")] = 0.5,
        open_range: Annotated[float, Between(0, 1, exclude="both")] = 0.5,
        count: Annotated[int, Positive] = 1,
        bins: Annotated[int, AtLeast(2)] = 2,
        depth: Annotated[int, Positive] | None = None,
        form: Literal["entropy", "printed"] = "entropy",
        workers: Annotated[int, NonNegative] | Literal["auto"] = 0,
        widths: list[Annotated[int, Positive]] | None = None,
        weights: dict[str, Annotated[float, NonNegative]] | None = None,
        pick: Literal["top", "random"] | list[Literal["top", "random"]] = "top",
        path: str | None = None,
        shift: float = 0.0,
    ) -> None:
        self.rate, self.count = rate, count


@checked
@dataclass(frozen=True)
class Frozen:
    """A dataclass with a bound."""

    depth: Annotated[int, Positive] = 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rate": 0}, "Example: rate is 0; choose a number above 0"),
        ({"rate": float("nan")}, "Example: rate is nan; choose a number above 0"),
        ({"rate": float("inf")}, "Example: rate is inf; choose a number above 0"),
        ({"rate": "fast"}, "Example: rate is 'fast'; choose a number above 0"),
        ({"share": 1.5}, "Example: share is 1.5; choose a number from 0 to 1"),
        ({"below_one": 1}, "Example: below_one is 1; choose a number from 0 below 1"),
        ({"open_range": 1}, "Example: open_range is 1; choose a number above 0 and below 1"),
        ({"count": 0}, "Example: count is 0; choose a whole number from 1 up"),
        ({"count": 1.5}, "Example: count is 1.5; choose a whole number from 1 up"),
        ({"count": True}, "Example: count is True; choose a whole number from 1 up"),
        ({"bins": 1}, "Example: bins is 1; choose a whole number from 2 up"),
        ({"depth": 0}, "Example: depth is 0; choose a whole number from 1 up or None"),
        ({"form": "printd"}, "Example: form is 'printd'; choose entropy or printed"),
        ({"workers": -1}, "Example: workers is -1; choose a whole number from 0 up or auto"),
        ({"workers": "all"}, "Example: workers is 'all'; choose a whole number from 0 up or auto"),
        ({"shift": float("nan")}, "Example: shift is nan; choose a number"),
        ({"widths": [4, 0]}, "Example: widths is [4, 0]; choose a whole number from 1 up"),
        ({"weights": {"a": -1}}, "Example: weights is {'a': -1}; choose a number from 0 up"),
        ({"pick": "first"}, "Example: pick is 'first'; choose top or random"),
        ({"pick": ["top", "first"]}, "Example: pick is ['top', 'first']; choose top or random"),
    ],
)
def test_an_argument_outside_its_bounds_is_refused(arguments, message):
    with pytest.raises(BadInput) as refusal:
        Example(**arguments)
    assert str(refusal.value) == message


def test_an_argument_within_its_bounds_is_accepted():
    example = Example(
        rate=2, share=0, below_one=0, count=np.int64(3), bins=2, depth=5, form="printed", workers="auto", widths=[1],
        weights={"a": 0}, pick=["top", "random"], path="x",
    )  # fmt: skip
    assert (example.rate, example.count) == (2, 3)
    Example(0.1, 1.0, depth=None)


def test_positional_arguments_are_checked_too():
    with pytest.raises(BadInput, match="Example: rate is -1"):
        Example(-1)


def test_a_dataclass_is_checked_and_can_be_pickled():
    with pytest.raises(BadInput, match="Frozen: depth is 0"):
        Frozen(0)
    assert pickle.loads(pickle.dumps(Frozen(3))) == Frozen(3)


def test_wrong_arguments_raise_the_error_of_the_call():
    with pytest.raises(BadInput, match=r"Example has no argument other; it has rate, share, .*; choose one of them"):
        Example(other=1)  # type: ignore[call-arg]


def test_every_bound_of_a_constructor_is_checked():
    unchecked = [
        f"{path}: {node.name}"
        for package in ("ranking", "sampling", "rl", "pooling", "analysis", "cluster")
        for path in sorted((ROOT / package).rglob("*.py"))
        if "Annotated[" in (source := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef) and _bounds(node) and not (_is_checked(node) or _is_part(path, node.name))
    ]
    assert not unchecked


def _bounds(node: ast.ClassDef) -> bool:
    """Whether a class has a constructor, or fields of a dataclass, with a bound of `pyrite.ranking.bounds`."""
    source = [f.args for f in node.body if isinstance(f, ast.FunctionDef) and f.name == "__init__"]
    fields = [f for f in node.body if isinstance(f, ast.AnnAssign)]
    written = "\n".join(ast.unparse(item) for item in [*source, *fields])
    return re.search(r"Annotated\[.*\b(Positive|NonNegative|Fraction|AtLeast|Between)\b", written) is not None


def _is_part(path: Path, name: str) -> bool:
    """Whether a class is a part, whose base has its constructor checked."""
    module = ".".join(("pyrite", *path.relative_to(ROOT).with_suffix("").parts))
    return getattr(getattr(import_module(module), name).__init__, "checked", False)


def _is_checked(node: ast.ClassDef) -> bool:
    init = [f for f in node.body if isinstance(f, ast.FunctionDef) and f.name == "__init__"]
    decorators = [*node.decorator_list, *(decorator for f in init for decorator in f.decorator_list)]
    return any(ast.unparse(decorator) == "checked" for decorator in decorators)
