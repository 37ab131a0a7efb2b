"""Defines the base of the objects of the Python API: what completes their names, and what refuses wrong ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from inspect import isfunction
from typing import TYPE_CHECKING, Any

from pyrite.ranking.bounds import checked
from pyrite.ranking.similar import similar

ELSEWHERE = {
    "from_pairs": "from_csv from_dataframe from_dataset from_dict from_frame from_json from_list from_pandas",
    "from_path": "from_file from_folder load open read",
    "run": "execute fit start train",
    "summary": "results scores table",
    "folder": "out path",
}
"""Names in other libraries by names here."""
HERE = {name: here for here, names in ELSEWHERE.items() for name in names.split()}


def no_attribute(owner: str, name: str, known: Sequence[str]) -> AttributeError:
    """Return the error for an attribute that an object or class does not have, with the one that is meant.

    >>> print(no_attribute("Collection", "from_csv", ["describe", "from_pairs"]))
    Collection has no attribute 'from_csv'; did you mean from_pairs?

    Args:
        known: the public names that it has.
    """
    here = HERE.get(name)
    meant = here if here in known else similar(name, known)
    end = f"did you mean {meant}?" if meant else f"it has {', '.join(known)}"
    return AttributeError(f"{owner} has no attribute {name!r}; {end}", name="")  # else Python appends its own guess


class PublicType(type):
    """Class of the classes of the Python API."""

    if not TYPE_CHECKING:  # type checkers know which attributes there are

        def __getattr__(cls, name: str) -> Any:
            raise no_attribute(cls.__name__, name, _public(dir(cls)))


class Public(metaclass=PublicType):
    """Base of the objects of the Python API.

    `dir` returns their public names only. Arguments of the constructor and of public methods, and attributes, that do
    not exist are refused with the one that is meant.

    >>> dir(Public())
    []
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, member in list(vars(cls).items()):
            if name == "__init__" or not name.startswith("_"):
                setattr(cls, name, _checked(member))

    def __dir__(self) -> list[str]:
        return _public(super().__dir__())

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in dir(type(self)):  # a property that raises this error
                return object.__getattribute__(self, name)
            raise no_attribute(type(self).__name__, name, dir(self))


def _public(names: Iterable[str]) -> list[str]:
    return [name for name in names if not name.startswith("_")]


def _checked(member: Any) -> Any:
    """Return a function or a class method that checks its arguments, and anything else as it is."""
    if isinstance(member, classmethod):
        return classmethod(checked(member.__func__))
    return checked(member) if isfunction(member) else member
