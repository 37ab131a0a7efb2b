"""Checks the requests of the judging page against the arguments of the functions that meet them."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from inspect import Parameter, signature
from typing import Annotated, Any, get_type_hints

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, ValidationError, create_model


class Refused(Exception):
    """A request that can't be met. Its text is shown to the assessor."""


def refuse_request(wrong: object, what: str) -> None:
    """Raise `Refused` if something is wrong.

    Args:
        wrong: a condition.
        what: the reason, in a sentence for the assessor.
    """
    if wrong:
        raise Refused(what)


def _clean(note: str) -> str:
    if "\x00" in note:
        raise ValueError("holds a NUL character")
    return note.strip()


def _short(id: str) -> str:
    if len(id.encode()) > LONGEST_ID:
        raise ValueError("is too long")
    return id


LONGEST_ID = 100_000
"""Bytes of an id that a request of the page can hold, whatever its characters are."""
Id = Annotated[str, StringConstraints(min_length=1), AfterValidator(_short)]
RequestId = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
"""An id of a request, the same if the page sends it again."""
Note = Annotated[str, AfterValidator(_clean)]


def parse(body: bytes, function: Callable[..., Any]) -> dict[str, Any]:
    """Return the arguments of a function by name, from the body of the request that it meets.

    Unknown keys are ignored, and values are not converted from other types. Half a surrogate pair, which JSON may hold
    and no file can, becomes U+FFFD.
    """
    try:
        content = json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise Refused("Requests are JSON objects.")
    try:
        return dict(_model(function).model_validate(well_formed(content)))
    except ValidationError as error:
        key = ".".join(map(str, error.errors()[0]["loc"]))
        raise Refused(f"The {key} is missing or is not valid.") from None


@cache
def _model(function: Callable[..., Any]) -> type[BaseModel]:
    """Return the model of a function's arguments, without the assessor and what it is called on."""
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {
        name: (hints[name], ... if parameter.default is Parameter.empty else parameter.default)
        for name, parameter in signature(function).parameters.items()
        if name not in ("self", "session", "assessor")
    }
    return create_model(function.__name__, __config__=ConfigDict(strict=True), **fields)


def well_formed(value: Any) -> Any:
    """Replace half a surrogate pair by U+FFFD in every text of a JSON value."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return value
    if isinstance(value, dict):
        return {well_formed(key): well_formed(each) for key, each in value.items()}
    return [well_formed(each) for each in value] if isinstance(value, list) else value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
