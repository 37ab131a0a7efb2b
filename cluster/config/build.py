"""Builds the object that a piece of configuration describes by its `_target_`."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import traceback
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import is_dataclass
from types import NoneType
from typing import Any, get_args, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from pyrite.cluster.config.moved import moved_error
from pyrite.cluster.config.parts import BASES, OURS
from pyrite.cluster.config.refusals import refusal
from pyrite.cluster.config.trust import Trust, check_classes
from pyrite.ranking.bounds import called, check_arguments
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.part import Part, parameters_of

EXTRAS = {"optuna": "search", "starlette": "judge", "uvicorn": "judge"}
"""Extras of pyproject.toml by the modules that they install."""


def build(node: Any, at: str = "", /, *, trust: Trust, **given: Any) -> Any:
    """Build the object that a part of a configuration describes by its `_target_`.

    The whole description is checked before anything is built: that its classes are trusted, before they are imported,
    then their base classes and the names of options.

    Args:
        at: its config key, for error messages, and for the base class that belongs there.
        trust: the origin of the description.
        given: more arguments of the constructor.

    Raises:
        BadInput: if a class is not trusted or of another kind, or if an option does not exist, has the wrong type, is
            outside its bounds, or is refused by the class.
    """
    check_classes(node, trust)
    _check_tree(node, at, _base_of(at), at.partition(".")[0])
    return _construct(node, at, given)


def build_each(nodes: Mapping[str, Any], at: str, /, *, trust: Trust) -> dict[str, Any]:
    """Build the parts of a group that have names, by their names."""
    return {name: build(node, f"{at}.{name}", trust=trust) for name, node in nodes.items()}


def parts_in(node: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a part, by their option."""
    return {key: value for key, value in node.items() if isinstance(value, dict) and "_target_" in value}


def _base_of(at: str) -> tuple[type, ...]:
    """Return the base class of the parts that belong at a key; nothing if it takes any class."""
    base = BASES.get(at.partition(".")[0])
    return () if base is None else (locate(base),)


def _bases_in(target: type, option: str) -> tuple[type, ...]:
    """Return the classes that an option of a class of ours declares; nothing if it takes others too."""
    declared = _types_of(target).get(option)
    kinds = tuple(each for each in get_args(declared) or (declared,) if each is not NoneType)
    return kinds if all(map(_is_base, kinds)) else ()


def _is_base(kind: Any) -> bool:
    """Return whether a type is a class of ours whose subclasses are parts."""
    return isinstance(kind, type) and _is_ours(kind) and not getattr(kind, "_is_protocol", False)


def _check_tree(node: dict[str, Any], at: str, bases: tuple[type, ...], kind: str) -> None:
    """Refuse a part, or a part in it, of another kind than belongs there, or with options that its class lacks."""
    target = locate(node["_target_"])
    if bases and not issubclass(target, bases):
        what = f"{target.__name__} is no {kind}"
        raise BadInput(what, f"{at}._target_", f"name a subclass of {bases[0].__module__}.{bases[0].__name__}")
    missing = sorted(getattr(target, "__abstractmethods__", ()))
    what = f"{target.__name__} has no {', '.join(missing)}"
    refuse(missing, what, node["_target_"], "write it, or name a class that has it")
    _check_names(target, node, at)
    for key, value in node.items():
        if not isinstance(value, dict):
            continue
        inner, kinds = f"{at}.{key}".lstrip("."), _bases_in(target, key)
        if "_target_" in value:
            _check_tree(value, inner, kinds, f"{key} of {target.__name__}")
        elif len(kinds) == 1:  # which `_check_types` refuses without a class
            _check_names(*kinds, value, inner)


def _construct(node: dict[str, Any], at: str, given: dict[str, Any]) -> Any:
    target = locate(node["_target_"])
    options = {key: value for key, value in node.items() if not key.startswith("_")}
    options |= {key: _construct(value, f"{at}.{key}" if at else "", {}) for key, value in parts_in(node).items()}
    if _is_ours(target):
        _check_types(target, options, at)
    else:
        _check_methods(target)
    # Not by Hydra's instantiate: it would take parts that are dataclasses apart into mappings.
    construct = functools.partial(target, **options, **given)
    if node.get("_partial_"):
        return construct
    try:
        with called() as functions:
            built = construct()
    except BadInput as error:
        raise _by_key(error, at) from None
    except TypeError as error:
        refuse("missing" in str(error), str(error), node["_target_"], "see `pyrite options`")  # an option was deleted
        raise
    _check_base_called(target, functions)
    return built


def _by_key(error: BadInput, at: str) -> BadInput:
    """Return the refusal of a part's constructor with the key of the configuration that it is about."""
    where, (outer, _, name) = str(error.where), at.rpartition(".")
    # The bound of a class inside this one, which the user does not know by name.
    if at and re.match(r"[A-Z]\w*: \w+ is ", f"{where}: {error.what}"):
        return BadInput(f"{at}.{error.what}", remedy=error.remedy)
    if outer and where.startswith(f"{name}."):  # refresh.lag of function.dense.refresh
        return BadInput(error.what, f"{outer}.{where}", error.remedy)
    return error


def locate(path: str) -> type:
    """Return the class of a dotted path; raise BadInput if there is none."""
    module, _, name = path.rpartition(".")
    refuse(not module, "names no module", path, "name the class by its module, as package.module.Class")
    try:
        target = getattr(importlib.import_module(module), name)
    except BadInput:
        raise
    except SyntaxError as error:
        what, where = f"{module} can't be imported ({error.msg})", f"{error.filename}:{error.lineno}"
        raise BadInput(what, where, "correct this line") from None
    except Exception as error:  # of any kind: importing runs the user's module
        if refused := moved_error(error, path) or missing_extra(error):
            raise refused from None
        last = traceback.extract_tb(error.__traceback__)[-1]
        if last.filename != __file__ and not last.filename.startswith("<frozen"):  # an import of the user's module
            what, where = f"{module} can't be imported ({error})", f"{last.filename}:{last.lineno}"
            raise BadInput(what, where, "install what it needs, or correct this line") from None
        remedy = "is it importable? A file in this folder is, with PYTHONPATH=."
        raise BadInput(f"there is no such class ({error})", path, remedy) from None
    refuse(
        not isinstance(target, type), "is not a class", path, "name the class by its module, as package.module.Class"
    )
    return target


def _is_ours(target: type) -> bool:
    return target.__module__.split(".")[0] == OURS


@functools.cache
def _check_methods(target: type) -> None:
    """Refuse a user's class with a method that can't be called as the base's is."""
    ours = {name: each for base in reversed(target.__mro__) if _is_ours(base) for name, each in vars(base).items()}
    for name, method in inspect.getmembers(target, inspect.isfunction):
        base = ours.get(name)
        if inspect.isfunction(base) and not (name.startswith("_") or _takes_as(method, base)):
            names = ", ".join(each.name for each in _positional(base))
            takes = ", ".join(inspect.signature(method).parameters)
            where = f"{method.__module__}.{method.__qualname__}"
            raise BadInput(f"takes ({takes}), but is called with ({names})", where, f"write def {name}({names})")


def _positional(method: Any) -> list[inspect.Parameter]:
    return [each for each in inspect.signature(method).parameters.values() if each.kind <= each.POSITIONAL_OR_KEYWORD]


def _check_base_called(target: type, functions: Collection[Any]) -> None:
    """Refuse a user's class whose constructor did not call the `checked` one of our base, and so lacks what it sets."""
    base = next(each for each in target.__mro__ if each is object or (_is_ours(each) and "__init__" in vars(each)))
    constructor: Any = vars(base)["__init__"]
    # The constructor of a dataclass sets the fields of its bases itself, and `Part` sets those of `FIELDS`.
    by_part = issubclass(base, Part) and parameters_of(constructor).keys() <= set(base.FIELDS)
    if by_part or is_dataclass(base) or not getattr(constructor, "checked", False):
        return
    where = f"{target.__module__}.{target.__name__}.__init__"
    refuse(
        inspect.unwrap(constructor) not in functions,
        f"does not call that of {base.__name__}",
        where,
        "begin it with super().__init__()",
    )


def _takes_as(method: Any, base: Any) -> bool:
    """Return whether a method can be called with the positional arguments of another one, or with those without its
    defaults."""
    given = _positional(base)
    required = sum(each.default is each.empty for each in given)
    for count in range(required, len(given) + 1):
        with suppress(TypeError):
            inspect.signature(method).bind(*[None] * count)
            return True
    return False


def _check_names(target: type, options: Iterable[str], at: str) -> None:
    fields = getattr(target, "FIELDS", ())  # which have another place in the configuration
    parameters = {name: each for name, each in inspect.signature(target).parameters.items() if name not in fields}
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return
    unknown = [name for name in options if not name.startswith("_") and name not in parameters]
    what = f"there is no option {at}.{{}}" if at else f"{target.__name__} has no option {{}}"
    refuse(unknown, what, remedy=f"{target.__name__} has {', '.join(parameters) or 'none'}")


def _check_types(target: type, options: dict[str, Any], at: str) -> None:
    """Check options against the annotations of the constructor. An argument without one takes any value."""
    check_arguments(target.__init__, options, None if at else target.__name__, at)  # type: ignore[misc]
    for name, value in options.items():
        try:
            _adapter(target, name).validate_python(value, strict=True)
        except ValidationError as error:
            raise refusal(error, f"{at}.{name}" if at else f"{name} of {target.__name__}") from None


@functools.cache
def _types_of(target: type) -> dict[str, Any]:
    """Return the types of the options of a class of ours."""
    return get_type_hints(target.__init__) if _is_ours(target) else {}  # type: ignore[misc]


@functools.cache
def _adapter(target: type, name: str) -> TypeAdapter[Any]:
    """Return what checks an argument of a constructor; making it takes far longer than a check."""
    kind = _types_of(target).get(name, Any)
    return TypeAdapter(kind, config=None if is_dataclass(kind) else ConfigDict(arbitrary_types_allowed=True))


def as_node(named: str | dict[str, Any]) -> dict[str, Any]:
    """Return a class that is given by its path alone as a part without options."""
    return {"_target_": named} if isinstance(named, str) else named


def missing_extra(error: Exception) -> BadInput | None:
    """Return what to install, in one line; None if the module belongs to no extra."""
    module = (error.name or "").partition(".")[0] if isinstance(error, ImportError) else ""
    if module not in EXTRAS:
        return None
    return BadInput(f"{module} is not installed", remedy=f"pip install 'pyrite-ir[{EXTRAS[module]}]'")
