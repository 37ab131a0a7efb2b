"""Compiles loops that Python calls, and the functions that only loops call, in as little time as Numba takes.

Numba makes for each function a wrapper by which Python calls it, which takes a third of the time if the arguments are
many arrays. It takes seconds for each NumPy sort and for each array that is allocated. So functions here allocate
nothing, sort by `pyrite.ranking.sorting_kernels`, and get a wrapper only if they are a `loop` or if Python calls them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

from numba import njit
from numba.core.dispatcher import Dispatcher

OPTIONS: dict[str, Any] = {"cache": True, "_nrt": False, "no_cfunc_wrapper": True}
"""Numba's options for functions that allocate nothing. `_nrt`: references to arrays are not counted at each call, which
costs more than the work of a short function does; Python holds the arrays meanwhile."""
kernel = njit(**OPTIONS)
"""Compiles a function that a loop calls. Python may call it too, which compiles it for Python."""


def loop(function: Callable[..., Any], **options: Any) -> Any:
    """Compile a function that Python calls, together with the kernels that it calls, which must be defined above it.

    Args:
        options: further options of Numba.
    """
    return njit(**OPTIONS, nogil=True, **options)(_linked(function, function.__qualname__))


@cache
def _inner(used: Dispatcher) -> Dispatcher:
    """Return a kernel that only compiled functions can call: itself if it is one, for its callers share it."""
    if "no_cpython_wrapper" in used.targetoptions:
        return used
    options = {key: value for key, value in used.targetoptions.items() if key != "nopython"}
    inner = _linked(used.py_func, f"{used.py_func.__qualname__}_inner")
    return njit(**options | {"cache": True, "no_cpython_wrapper": True})(inner)


def _linked(function: Any, name: str) -> FunctionType:
    """Return a copy of a function that calls the inner form of each kernel.

    Numba caches by the name and the file of a function, and does not see when a file of what it calls changes. So the
    copy's name has a digest of these files.
    """
    inner = {called: _inner(used) for called, used in _called(function)}
    copy = FunctionType(
        function.__code__, {**function.__globals__, **inner}, function.__name__, function.__defaults__,
        function.__closure__,
    )  # fmt: skip
    copy.__qualname__ = f"{name}_{_digest(frozenset(_files(function)))}"
    copy.__module__ = function.__module__
    return copy


def _called(function: Any) -> Iterator[tuple[str, Dispatcher]]:
    """Yield the kernels that a function calls by a global name, itself excluded."""
    for name in function.__code__.co_names:
        used = function.__globals__.get(name)
        if isinstance(used, Dispatcher) and used.py_func.__code__ is not function.__code__:
            yield name, used


def _files(function: Any) -> set[str]:
    """Return the files of a function and of all kernels that it calls."""
    return {function.__code__.co_filename}.union(*(_files(used.py_func) for _, used in _called(function)))


@cache
def _digest(files: frozenset[str]) -> str:
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(Path(file).read_bytes())
    return digest.hexdigest()[:12]
