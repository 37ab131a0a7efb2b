"""Checks the arguments of constructors against their annotations.

A bound is part of an argument's type, and is written nowhere else:

>>> class Dynamic:
...     @checked
...     def __init__(self, lam: Annotated[float, Fraction] = 0.5, pick: Literal["top", "random"] = "top") -> None:
...         self.lam, self.pick = lam, pick
>>> Dynamic(lam=2)
Traceback (most recent call last):
pyrite.ranking.errors.BadInput: Dynamic: lam is 2; choose a number from 0 to 1

The bounds are those of `annotated_types`, which pydantic and Hypothesis know too.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Interval, Le, Lt

from pyrite.ranking.arguments import bound, require
from pyrite.ranking.errors import BadInput

T = TypeVar("T", bound=Callable[..., Any])

_CALLED: ContextVar[set[Any]] = ContextVar("_CALLED")
"""The functions that `called` yields."""

Positive = Interval(gt=0)
NonNegative = Interval(ge=0)
Fraction = Interval(ge=0, le=1)


Bound = Gt | Ge | Lt | Le
HOLDS: Mapping[type, Callable[[Any, Any], bool]] = {
    Gt: operator.gt, Ge: operator.ge, Lt: operator.lt, Le: operator.le,
}  # fmt: skip
"""Whether a value is within a bound."""
RANGES: Mapping[tuple[type, type], str] = {
    (Ge, NoneType): "from {} up",
    (Gt, NoneType): "above {}",
    (NoneType, Le): "to {}",
    (NoneType, Lt): "below {}",
    (Ge, Le): "from {} to {}",
    (Ge, Lt): "from {} below {}",
    (Gt, Le): "above {}, at most {}",
    (Gt, Lt): "above {} and below {}",
}
"""The words for a range, by its lower and upper bound."""
WHOLE: Mapping[type, Callable[[Any], Bound]] = {
    Gt: lambda bound: Ge(math.floor(float(bound.gt)) + 1),
    Lt: lambda bound: Le(math.ceil(float(bound.lt)) - 1),
    Ge: lambda bound: bound,
    Le: lambda bound: bound,
}
"""The same bound of whole numbers, as one that includes its limit."""
NUMBERS: Mapping[type, tuple[Any, str, Mapping[type, Callable[[Any], Bound]]]] = {
    int: (Integral, "a whole number", WHOLE),
    float: (Real, "a number", dict.fromkeys(HOLDS, lambda bound: bound)),
}
"""The type of a value, its name, and how a bound is shown, by the annotation."""


def AtLeast(low: float) -> Interval:
    """The bound `low` ≤ value."""
    return Interval(ge=low)


def Between(low: float, high: float, exclude: Literal["none", "low", "high", "both"] = "none") -> Interval:
    """The bound `low` ≤ value ≤ `high`.

    Args:
        exclude: which of the two values are not allowed themselves.
    """
    lower = {"gt": low} if exclude in ("low", "both") else {"ge": low}
    upper = {"lt": high} if exclude in ("high", "both") else {"le": high}
    return Interval(**lower, **upper)


def checked(target: T) -> T:
    """Make a constructor, or any function, check its arguments against their annotations.

    Args:
        target: `__init__`, a function, or a dataclass (above `@dataclass`).

    Returns:
        The function, or the class with its constructor replaced. It raises `BadInput` if an argument does not exist, is
        missing, is outside its bounds or is none of its choices.
    """
    if getattr(target, "checked", False):
        return target
    if isinstance(target, type):
        target.__init__ = checked(target.__init__)  # type: ignore[misc]
        return target
    signature = inspect.signature(target)

    @functools.wraps(target)
    def call(*args: Any, **kwargs: Any) -> Any:
        of = type(args[0]) if target.__name__ == "__init__" and args else target  # also of a subclass
        named = of.__qualname__.rpartition("<locals>.")[2]
        given = bound(of, named, signature, args, kwargs)
        check_arguments(target, given, named)
        require(of, named, signature, given)
        if (functions := _CALLED.get(None)) is not None:
            functions.add(target)
        return target(*args, **kwargs)

    call.checked = True  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


@contextmanager
def called() -> Iterator[set[Any]]:
    """A context that yields the `checked` functions that are called within it, without their wrappers."""
    functions = set[Any]()
    token = _CALLED.set(functions)
    try:
        yield functions
    finally:
        _CALLED.reset(token)


def check_arguments(
    function: Callable[..., Any], arguments: Mapping[str, Any], owner: str | None = None, key: str = ""
) -> None:
    """Check arguments against the bounds and choices in a function's annotations.

    Args:
        owner: the name of the class or function, for error messages.
        key: the config key of the part, for error messages; an alternative to `owner`.

    Raises:
        BadInput: if an argument is outside its bounds, or none of its choices.
    """
    annotations = annotations_of(function)
    for name, value in arguments.items():
        remedy = _remedy(annotations.get(name), value)
        if remedy:
            written = remedy.replace(" or null", " or None") if owner else remedy
            raise BadInput(f"{key}.{name} is {value!r}".lstrip("."), owner, f"choose {written}")


@functools.cache
def annotations_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return a function's annotations, without those that name something that was not imported."""
    with suppress(NameError):
        return get_type_hints(function, include_extras=True)
    known: dict[str, Any] = {}
    inner = inspect.unwrap(function)
    for name, annotation in inspect.get_annotations(inner).items():
        with suppress(NameError):
            known[name] = eval(annotation, inner.__globals__) if isinstance(annotation, str) else annotation
    return known


def _remedy(hint: Any, value: Any) -> str | None:
    """Return what to choose instead if a value is not one that its annotation allows."""
    if hint is float and isinstance(value, Real) and math.isnan(value):
        return "a number"
    rule = RULES.get(get_origin(hint))
    return None if rule is None else rule(get_args(hint), value)


def _first_remedy(pairs: Iterable[tuple[Any, Any]]) -> str | None:
    """Return the remedy of the first value that its annotation does not allow."""
    return next(filter(None, itertools.starmap(_remedy, pairs)), None)


def _in_list(members: tuple[Any, ...], value: Any) -> str | None:
    items = value if isinstance(value, list | tuple) else ()
    return _first_remedy(itertools.product(members[:1], items))


def _in_tuple(members: tuple[Any, ...], value: Any) -> str | None:
    if members[-1] is ...:
        return _in_list(members, value)
    return _first_remedy(zip(members, value if isinstance(value, list | tuple) else (), strict=False))


def _in_mapping(members: tuple[Any, ...], value: Any) -> str | None:
    items = value.values() if isinstance(value, Mapping) else ()
    return _first_remedy(itertools.product(members[1:], items))


def _in_choices(members: tuple[Any, ...], value: Any) -> str | None:
    known = [(type(choice), choice) for choice in members]
    return None if (type(value), value) in known else _one_of(list(map(_shown, members)))


def _in_union(members: tuple[Any, ...], value: Any) -> str | None:
    remedies, constrained = [], False
    for member in members:
        if get_origin(member) in (Annotated, Literal):
            constrained, remedy = True, _remedy(member, value)
            if remedy is None:
                return None
            remedies.append(remedy)
            continue
        kind = {int: Integral, float: Real}.get(member, get_origin(member) or member)
        if kind is Any or not isinstance(kind, type) or isinstance(value, kind):
            return _remedy(member, value)
        if member is NoneType:
            remedies.append("null")
    return _one_of(remedies) if constrained else None


def _in_bounds(members: tuple[Any, ...], value: Any) -> str | None:
    base, *metadata = members
    bounds = _bounds_of(metadata)
    if not bounds:
        return _remedy(base, value)
    kind, called, shown = NUMBERS.get(base, NUMBERS[float])
    numeric = isinstance(value, kind) and type(value) is not bool and math.isfinite(value)
    if numeric and all(HOLDS[type(bound)](value, _limit(bound)) for bound in bounds):
        return None
    return f"{called} {_range([shown[type(bound)](bound) for bound in bounds])}"


def _bounds_of(metadata: Iterable[Any]) -> list[Bound]:
    """Return the bounds of a number among what its annotation says."""
    entries = itertools.chain.from_iterable(entry if isinstance(entry, Interval) else [entry] for entry in metadata)
    return [bound for bound in entries if type(bound) in HOLDS]


def _range(bounds: Sequence[Bound]) -> str:
    """Describe a range: "from 1 up", "above 0 and below 1"."""
    low, high = (next((bound for bound in bounds if isinstance(bound, ends)), None) for ends in (Gt | Ge, Lt | Le))
    return RANGES[type(low), type(high)].format(*map(_limit, filter(None, (low, high))))


def _limit(bound: object) -> Any:
    return getattr(bound, type(bound).__name__.lower())


RULES: Mapping[Any, Callable[[tuple[Any, ...], Any], str | None]] = {
    Annotated: _in_bounds,
    Literal: _in_choices,
    **dict.fromkeys((Union, UnionType), _in_union),
    **dict.fromkeys((list, Sequence), _in_list),
    tuple: _in_tuple,
    **dict.fromkeys((dict, Mapping), _in_mapping),
}
"""How a value is checked, by the origin of its annotation. Others are not checked."""


def _shown(choice: Any) -> str:
    return choice if isinstance(choice, str) else {None: "null", True: "true", False: "false"}.get(choice, str(choice))


def _one_of(choices: list[str]) -> str:
    return choices[0] if len(choices) == 1 else f"{', '.join(choices[:-1])} or {choices[-1]}"
