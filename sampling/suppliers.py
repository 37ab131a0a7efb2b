"""Defines where a query's negatives come from: suppliers, each with its number, and what chooses among them.

These are the bases of retrieval functions, selectors and policies, and the sum of several functions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from inspect import Parameter, Signature
from numbers import Integral
from typing import Annotated, Any, ClassVar

from pyrite.ranking.bounds import NonNegative
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.part import Divided, Part, parameters_of


class Picker(Part):
    """Base of selectors: picks negatives from what a supplier offers."""


class Supplier(Part):
    """Base of retrieval functions: supplies negatives to queries.

    `InBatch() + BM25(1)` is the sum of two.

    Args:
        count: how many negatives it supplies to each query. None takes `sampling.negatives`, or all that the
            batch has for `InBatch`.
        pick: the selector that picks them from its candidates. None picks at random.
        name: its name in tables, if a sum has two of its class.

    Raises:
        BadInput: if the number is no whole number from 0 up, or the name has other characters than letters, digits and
            _.
    """

    FIELDS: ClassVar[tuple[str, ...]] = ("count", "pick", "name")
    count: int | None = None
    pick: Picker | None = None
    name: str | None = None

    def __init__(
        self, count: Annotated[int, NonNegative] | None = None, *, pick: Picker | None = None, name: str | None = None
    ) -> None:
        self._set_fields(count=count, pick=pick, name=name)

    def _set_fields(self, **values: Any) -> None:
        owner = type(self).__name__
        count, pick, name = (values.get(field, getattr(self, field)) for field in Supplier.FIELDS)
        whole = isinstance(count, Integral) and not isinstance(count, bool)
        if count is not None and not (whole and int(count) >= 0):
            raise BadInput(f"{owner}: count is {count!r}", remedy="choose a whole number from 0 up")
        pick = pick() if isinstance(pick, type) and issubclass(pick, Picker) else pick
        if pick is not None and not isinstance(pick, Picker):
            remedy = "give one of pyrite's, as SimANS(), or an object of a class of your own that subclasses Selector"
            raise BadInput(f"{pick!r} is no selector", f"pick of {owner}", remedy)
        if name is not None and not re.fullmatch(r"\w+", str(name)):
            raise BadInput(f"name is {name!r}", owner, "choose letters, digits and _")
        self.count, self.pick, self.name = None if count is None else int(count), pick, name

    @classmethod
    def own(cls, thing: object, *args: object, **options: object) -> Supplier:
        """Refuse the form of version 0.2."""
        kind = thing if isinstance(thing, type) else type(thing)
        remedy = f"write {kind.__name__}(count=1, pick=…, name=…): each function takes the three"
        raise BadInput("Function.own is gone", "pyrite", remedy)

    def __add__(self, other: object) -> Negatives:
        return Negatives(self) + other

    def __radd__(self, other: object) -> Negatives:
        return Negatives(other) + self


class Chooser(Part):
    """Base of policies: chooses among suppliers.

    Args:
        functions: the functions, easy to hard for a schedule. A run has them already.
    """

    FIELDS: ClassVar[tuple[str, ...]] = ("functions",)
    over: Negatives | None = None

    def __init__(self, *functions: Supplier) -> None:
        self._set_fields(functions=functions)

    @classmethod
    def _signature(cls, declared: Mapping[str, Parameter]) -> Signature:
        if "functions" in declared:
            return Signature(list(declared.values()))
        first = Parameter("functions", Parameter.VAR_POSITIONAL)
        return Signature([first, *(each.replace(kind=Parameter.KEYWORD_ONLY) for each in declared.values())])

    @classmethod
    def _divide(cls, args: tuple[Any, ...], options: dict[str, Any]) -> Divided:
        if "functions" in parameters_of(cls.__init__):
            return args, options, {}
        functions = tuple(each for each in args if _is_supplier(each))
        return args[len(functions) :], options, {"functions": functions} if functions else {}

    def _set_fields(self, **values: Any) -> None:
        functions = values.get("functions", ())
        self.over = Negatives(*functions, policy=self) if functions else None


class Negatives:
    """Retrieval functions that supply a query's negatives together.

    Args:
        functions: the functions.
        policy: the policy that chooses among them. None takes the number of each function for every query.

    Raises:
        BadInput: if there is no function, one is of another kind, or two have one name.
    """

    def __init__(self, *functions: object, policy: Chooser | None = None) -> None:
        self.functions, self.policy = list(map(_supplier, functions)), policy
        refuse(not self.functions, "negatives need a retrieval function", remedy="give one, as InBatch() or BM25(1)")
        if policy is not None and not isinstance(policy, Chooser):
            remedy = "give one of pyrite's, as Schedule(), or an object of a class of your own that subclasses Policy"
            raise BadInput(f"{policy!r} is no policy", "policy", remedy)
        names = [each.name or type(each).__name__ for each in self.functions]
        if twice := [name for name in names if names.count(name) > 1]:
            remedy = f"give one of them a name, as {type(self.functions[names.index(twice[0])]).__name__}(name='deep')"
            raise BadInput(f"two functions are called {twice[0]}", remedy=remedy)

    @classmethod
    def of(cls, thing: object) -> Negatives:
        """Return the negatives of a function, a sum, a policy, or one of their classes."""
        if isinstance(thing, Negatives):
            return thing
        if isinstance(thing, Chooser):
            if thing.over is None:
                raise BadInput("has no functions to choose among", repr(thing), "give them first, as Random(), BM25()")
            return thing.over
        return cls(thing)

    def __add__(self, other: object) -> Negatives:
        more = other.functions if isinstance(other, Negatives) else [other]
        return Negatives(*self.functions, *more, policy=self.policy)

    def __radd__(self, other: object) -> Negatives:
        return Negatives(other) + self

    def __repr__(self) -> str:
        functions = " + ".join(map(repr, self.functions))
        if self.policy is None:
            return functions
        return repr(self.policy) if self.policy.over is not None else f"{self.policy!r} over {functions}"


def _is_supplier(thing: object) -> bool:
    return isinstance(thing, Supplier) or (isinstance(thing, type) and issubclass(thing, Supplier))


def _supplier(thing: Any) -> Supplier:
    """Return a function as it is, or an object of its class."""
    if not _is_supplier(thing):
        remedy = "give one of pyrite's, as BM25(1), or an object or class of your own that subclasses Function"
        raise BadInput(f"{thing!r} is no retrieval function", remedy=remedy)
    function: Supplier = thing() if isinstance(thing, type) else thing
    return function
