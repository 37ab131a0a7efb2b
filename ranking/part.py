"""Defines the base of all parts of an experiment: objects that remember the arguments of their constructor.

>>> class Middle(Part):
...     def __init__(self, first: int = 5, last: int = 30) -> None:
...         self.ranks = range(first, last)
>>> Middle(last=20)
Middle(last=20)
>>> arguments_of(Middle(last=20))
{'last': 20}

So each part can be written as the configuration that builds it again, and its class is all that declares it.
"""

from __future__ import annotations

import copy
import functools
import inspect
from abc import ABCMeta
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from inspect import Parameter, Signature
from typing import Any, ClassVar

from pyrite.ranking.arguments import check_names
from pyrite.ranking.bounds import checked
from pyrite.ranking.errors import refuse

GIVEN = "_given"
"""The attribute that holds the arguments of a part's constructor, as they were given."""
Divided = tuple[tuple[Any, ...], dict[str, Any], dict[str, Any]]
STARS: Mapping[Any, str] = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}


class PartType(ABCMeta):
    """The class of the classes of parts: it records the arguments of each constructor."""

    @property
    def __signature__(cls) -> Signature:
        """The signature of the constructor, with the fields of the base that it does not declare."""
        return _signature_of(cls, cls.__init__)  # type: ignore[misc]

    def __call__(cls, *args: Any, **options: Any) -> Any:
        """Build a part.

        Raises:
            BadInput: if the class has no such option.
        """
        check_names(cls, cls.__name__, cls.__signature__.parameters, options)
        own, own_options, of_base = cls._divide(args, options)  # type: ignore[attr-defined]
        part = super().__call__(*own, **own_options)
        vars(part)[GIVEN] = args, options
        if of_base:
            part._set_fields(**of_base)
        return part


class Part(metaclass=PartType):
    """Base of all parts: selectors, retrieval functions, policies, objectives, rankers, adjudicators and others.

    A subclass with other defaults is written in one line, and is a separate part:

    >>> class Middle(Part):
    ...     def __init__(self, first: int = 5, last: int = 30) -> None:
    ...         self.ranks = range(first, last)
    >>> class Late(Middle, first=20):
    ...     pass
    >>> Late().ranks
    range(20, 30)

    Attributes:
        FIELDS: the constructor's arguments that are no options: the configuration has another place for them. A
            subclass takes them although its constructor does not declare them.
        reads_word_vectors: whether a retrieval function, an origin, an order of batches, an objective or a teacher
            reads word vectors. Classes from outside the project are given them in any case, rankers if they read words.
    """

    FIELDS: ClassVar[tuple[str, ...]] = ()
    reads_word_vectors: ClassVar[bool] = False

    def __init_subclass__(cls, **defaults: Any) -> None:
        super().__init_subclass__()
        if "__init__" in vars(cls):
            cls.__init__ = checked(cls.__init__)  # type: ignore[method-assign]
        if defaults:
            cls.__init__ = _with_defaults(cls.__init__, defaults)  # type: ignore[method-assign]

    @classmethod
    def _signature(cls, declared: Mapping[str, Parameter]) -> Signature:
        last = [each for each in declared.values() if each.kind is Parameter.VAR_KEYWORD]
        more = [Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in cls.FIELDS if name not in declared]
        return Signature([*(each for each in declared.values() if each not in last), *more, *last])

    @classmethod
    def _divide(cls, args: tuple[Any, ...], options: dict[str, Any]) -> Divided:
        """Divide arguments into those that the constructor declares, and the other fields of the base."""
        declared = parameters_of(cls.__init__)
        of_base = {name: value for name, value in options.items() if name in cls.FIELDS and name not in declared}
        return args, {name: value for name, value in options.items() if name not in of_base}, of_base

    def _set_fields(self, **values: Any) -> None:
        vars(self).update(values)

    def __repr__(self) -> str:
        return described(self)


def described(part: object) -> str:
    """Return a part as the call that builds it."""
    args, options = vars(part).get(GIVEN, ((), {}))
    return f"{type(part).__name__}({', '.join([*map(repr, args), *(f'{key}={options[key]!r}' for key in options)])})"


def arguments_of(part: object) -> dict[str, Any]:
    """Return the arguments that a part was built with, by name; those that were left out are not in it.

    Args:
        part: a part, a dataclass, or an object that keeps each argument in an attribute of the same name.

    Raises:
        BadInput: if an argument is kept in no attribute.
    """
    given = vars(part).get(GIVEN) if hasattr(part, "__dict__") else None
    if given is not None:
        return _given(part, *given)
    if is_dataclass(part):
        values = {each.name: (getattr(part, each.name), each.default) for each in fields(part) if each.init}
        return {name: value for name, (value, default) in values.items() if value != default}
    return {name: _kept(part, parameter) for name, parameter in parameters_of(type(part).__init__).items()}


def _given(part: object, args: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a constructor by name."""
    kind = type(part)
    args, options, of_base = kind._divide(args, options)  # type: ignore[attr-defined]
    bound = inspect.signature(kind.__init__).bind(part, *args, **options).arguments
    declared = parameters_of(kind.__init__)
    named = {name: value for name, value in bound.items() if name in declared}
    for name in (name for name, each in declared.items() if each.kind is Parameter.VAR_KEYWORD):
        named |= named.pop(name, {})
    return named | of_base


def options_of(part: object) -> dict[str, Any]:
    """Return the arguments that a part was built with, without its base's fields."""
    fields_of_base: tuple[str, ...] = getattr(part, "FIELDS", ())
    return {name: value for name, value in arguments_of(part).items() if name not in fields_of_base}


def all_options(part: object) -> dict[str, Any]:
    """Return all options of a part: those that it was built with, and the defaults of the others."""
    constructors = [vars(kind)["__init__"] for kind in reversed(type(part).__mro__[:-1]) if "__init__" in vars(kind)]
    every = {name: each.default for constructor in constructors for name, each in parameters_of(constructor).items()}
    defaults = {name: value for name, value in every.items() if value is not Parameter.empty}
    return defaults | options_of(part)


def path_of(kind: type) -> str:
    """Return the dotted path of a class."""
    return f"{kind.__module__}.{kind.__qualname__}"


def config_of(part: object) -> dict[str, Any]:
    """Return the configuration that builds a part again: its class under `_target_`, and its options.

    >>> config_of(Part())
    {'_target_': 'pyrite.ranking.part.Part'}
    """
    return {"_target_": path_of(type(part)), **{name: _plain(value) for name, value in options_of(part).items()}}


def _plain(value: Any) -> Any:
    if isinstance(value, Part) or (is_dataclass(value) and not isinstance(value, type)):
        return config_of(value)
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    return list(map(_plain, value)) if isinstance(value, list | tuple) else value


def _kept(part: object, parameter: Parameter) -> Any:
    """Return an argument that an object keeps; refuse one that it does not keep."""
    owner, name = type(part).__name__, parameter.name
    stars = STARS.get(parameter.kind)
    refuse(stars, f"takes any arguments, by {stars}{name}", owner, "name each of them")
    refuse(
        not hasattr(part, name),
        f"does not keep its argument {name}",
        owner,
        f"set self.{name} = {name} in its constructor",
    )
    return getattr(part, name)


@functools.cache
def _signature_of(kind: Any, constructor: Callable[..., Any]) -> Signature:
    signature: Signature = kind._signature(parameters_of(constructor))
    return signature


@functools.cache
def parameters_of(constructor: Callable[..., Any]) -> dict[str, Parameter]:
    """Return the parameters of a constructor without `self`."""
    if constructor is object.__init__:
        return {}
    return dict(list(inspect.signature(constructor).parameters.items())[1:])


def _with_defaults(constructor: Callable[..., Any], defaults: Mapping[str, Any]) -> Callable[..., Any]:
    """Return a constructor with other defaults."""
    signature = inspect.signature(constructor)

    @functools.wraps(constructor)
    def call(self: Any, *args: Any, **options: Any) -> None:
        given = signature.bind_partial(self, *args, **options).arguments
        others = {name: copy.deepcopy(value) for name, value in defaults.items() if name not in given}
        constructor(self, *args, **options, **others)

    parameters = [each.replace(default=defaults.get(name, each.default)) for name, each in signature.parameters.items()]
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    call.__annotations__ = inspect.unwrap(constructor).__annotations__
    return call
