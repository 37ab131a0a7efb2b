"""Compiles loops for one method each, and caches them on disk.

A method consists of a few lines that a loop calls for every arm or judgement: they must be compiled into the loop to be
fast. Numba caches compiled functions by the file and the name of the function; it sees neither which other functions it
calls nor caches a closure. So a loop is a template whose global names are filled in for a method, and its name carries
a digest of all the sources that it can depend on.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from functools import cache
from inspect import signature
from pathlib import Path
from types import FunctionType
from typing import Any

from numba import config as numba_config
from numba import njit

from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.kernels import OPTIONS, loop

kernel = njit(**OPTIONS, forceinline=True)
"""Compiles a function that a loop calls; see `pyrite.ranking.kernels.kernel`."""

HERE = Path(__file__).parent
LONGEST = 60
"""Characters of a method's name in that of its compiled functions."""


def options_of(function: Any, owner: Any, given: int) -> tuple[float, ...]:
    """Return the options that a function, compiled or not, names among its arguments, read from the attributes of their
    owner. The first `given` arguments are no options.
    """
    return tuple(float(getattr(owner, name)) for name in arguments_of(function)[given:])


@cache
def arguments_of(function: Any) -> list[str]:
    """Return the names of the arguments of a function, compiled or not."""
    return list(signature(getattr(function, "py_func", function)).parameters)


def compiled(template: Callable[..., Any], name: str, *, into_caller: bool = False, **uses: Any) -> Any:
    """Compile a template together with the functions that it calls.

    Args:
        template: a plain function that may call the names in `uses` as if they were globals.
        name: the method's name; unique within a module.
        into_caller: whether it is compiled as a part of the loop that calls it, which takes less time than compiling
            it alone; for a large function with one caller.
        uses: compiled functions, and numbers, by the names that the template has for them.
    """
    for called, used in uses.items():
        if not isinstance(used, int) and not hasattr(used, "py_func") and not getattr(numba_config, "DISABLE_JIT", 0):
            where = f"{getattr(used, '__module__', '')}.{getattr(used, '__qualname__', called)}"
            raise BadInput("is not compiled", where, "write @kernel of pyrite.pooling.adjudicators.compiled above it")
    function = FunctionType(template.__code__, {**template.__globals__, **uses}, template.__name__)
    sources = {file for used in uses.values() if (file := _source(used))}
    if len(name) > LONGEST:  # of methods around methods; Numba makes a file's name of it
        name = f"{name[:LONGEST]}_{hashlib.sha256(name.encode()).hexdigest()[:12]}"
    function.__qualname__ = f"{template.__name__}_{name}_{_digest(frozenset(sources))}"
    function.__module__ = template.__module__
    return loop(function, **({"inline": "always"} if into_caller else {"forceinline": True}))


def around(outer: str, inner: Any, *templates: Callable[..., Any]) -> tuple[Any, ...]:
    """Compile functions of a method, of the class `outer`, around those of another adjudicator, which they call
    `inner_choose`, `inner_take` and `inner_learn`.
    """
    what = f"{outer} can't be put around {type(inner).__name__}, which is not compiled"
    refuse(not inner.compiles, what, "adjudicator", "choose another order")
    return _around(inner.choose, inner.take, inner.learn, *templates)


@cache
def _around(choose: Any, take: Any, learn: Any, *templates: Callable[..., Any]) -> tuple[Any, ...]:
    uses = {"inner_choose": choose, "inner_take": take, "inner_learn": learn}
    return tuple(compiled(template, choose.__qualname__ + learn.__qualname__, **uses) for template in templates)


def _source(used: Any) -> str | None:
    return getattr(sys.modules.get(getattr(used, "__module__", "")), "__file__", None)


@cache
def _digest(sources: frozenset[str]) -> str:
    """Digest the sources of a loop: this folder, pool, sentinels, and the files of the method's functions."""
    digest = hashlib.sha256()
    shared = [*HERE.rglob("*.py"), HERE.parent / "pool.py", HERE.parent / "sentinels.py"]
    for file in sorted({*map(str, shared), *sources}):
        digest.update(Path(file).read_bytes())
    return digest.hexdigest()[:12]
