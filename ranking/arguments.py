"""Refuses arguments that a function or class lacks, and suggests the one that is meant.

>>> def mine(data: str, negatives: int = 5) -> None: ...
>>> bound(mine, "mine", inspect.signature(mine), (), {"data": "a", "negative": 3})
Traceback (most recent call last):
pyrite.ranking.errors.BadInput: mine has no argument negative; it has data, negatives; did you mean negatives=3?
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter, Signature
from typing import Any

from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.similar import similar

Elsewhere = Callable[[Callable[..., Any], str, Any], str | None]
ELSEWHERE: list[Elsewhere] = []
"""Return the remedy for an argument that a function or class does not have, by words of other tools; `pyrite` adds one.
It is called with the function or class, the name and the value."""
NEARLY = 0.9
"""The similarity of names from which no other tool's word is meant."""
ANY = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
LONGEST = 60
"""The most characters of a value in a message."""


def bound(
    of: Callable[..., Any], owner: str, signature: Signature, args: tuple[Any, ...], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a call by name; `require` refuses those that are missing.

    Args:
        of: the function, or the class that is built.
        owner: its name, for error messages.

    Raises:
        BadInput: if an argument does not exist, or is given twice.
    """
    known = _own(of, owner, signature)
    of_method = "." in owner and not isinstance(of, type)
    check_names(of, owner, known, options, *args[:of_method])
    try:
        return signature.bind_partial(*args, **options).arguments
    except TypeError as error:
        raise BadInput(str(error), owner, f"it has {', '.join(known) or 'no arguments'}") from None


def require(of: Callable[..., Any], owner: str, signature: Signature, given: Mapping[str, Any]) -> None:
    """Refuse a call without an argument that has no default."""
    known = _own(of, owner, signature)
    required = [name for name, each in known.items() if each.default is Parameter.empty and each.kind not in ANY]
    missing = [name for name in required if name not in given]
    refuse(missing, f"{owner} needs the argument {{}}", remedy=f"it has {', '.join(known)}")


def _own(of: Callable[..., Any], owner: str, signature: Signature) -> dict[str, Parameter]:
    """Return the parameters of a function, or of a method or class without the object itself."""
    of_object = isinstance(of, type) or "." in owner
    return dict(list(signature.parameters.items())[of_object:])


def check_names(
    of: Callable[..., Any], owner: str, known: Mapping[str, Parameter], options: Mapping[str, Any], *of_object: Any
) -> None:
    """Refuse arguments that a function or class does not have.

    Args:
        known: its parameters by name.
        of_object: the object whose method it is.
    """
    if ANY[1] in {each.kind for each in known.values()}:
        return
    for name in [each for each in options if each not in known]:
        what = f"{owner} has no argument {name}; it has {', '.join(known) or 'none'}"
        remedies = filter(None, _remedies(of, name, options[name], known, *of_object))
        raise BadInput(what, remedy=next(remedies, "choose one of them" if known else "leave it out"))


def _remedies(
    of: Callable[..., Any], name: str, value: Any, known: Mapping[str, Parameter], *of_object: Any
) -> Iterator[str | None]:
    """Yield what to write instead of an argument, the most certain first."""
    longer = [each for each in known if each.startswith(name)]
    nearly = longer[0] if len(longer) == 1 else similar(name, known, NEARLY)
    if nearly:
        yield f"did you mean {_written(known[nearly], value)}?"
    for remedy in ELSEWHERE:
        yield remedy(of, name, value)
    for each in of_object:
        yield _of_constructor(type(each), name, value)
    if close := similar(name, known):
        yield f"did you mean {_written(known[close], value)}?"


def _of_constructor(kind: type, name: str, value: Any) -> str | None:
    """Return the remedy for an argument of a method that is one of its class."""
    known = inspect.signature(kind).parameters
    meant = similar(name, known, 0.8)
    return meant and f"give {_written(known[meant], value)} to {kind.__name__}(…)"


def _written(parameter: Parameter, value: Any) -> str:
    """Return an argument as Python writes it."""
    listed = "Sequence[" in str(parameter.annotation) and not isinstance(value, list | tuple | str)
    text = f"[{value!r}]" if listed else repr(value)
    is_short = len(text) < LONGEST and text.isprintable()
    return f"{parameter.name}={text if is_short else '…'}"
