"""Builds the object that a piece of configuration describes by its `_target_`."""

from __future__ import annotations

import dis
import functools
import importlib
import inspect
import re
import traceback
from typing import TYPE_CHECKING, Any, get_type_hints

from pyrite.cluster.config.parts import OURS
from pyrite.ranking.bounds import check_arguments
from pyrite.ranking.errors import BadInput

if TYPE_CHECKING:
    from pydantic import TypeAdapter

EXTRAS = {
    "tree": "rl", "lz4": "rl", "ormsgpack": "rl", "starlette": "judge", "uvicorn": "judge",
    "sentence_transformers": "transformers",
}  # fmt: skip
"""Extras of pyproject.toml by the modules that they install."""


def build(node: Any, at: str = "", /, **given: Any) -> Any:
    """Build the object that a part of a configuration describes by its `_target_`.

    Args:
        at: its config key, for error messages.
        given: more arguments of the constructor.

    Raises:
        BadInput: if an option has the wrong type, is outside its bounds, or is refused by the class.
    """
    target = locate(node["_target_"])
    parts = {
        key: build(value, f"{at}.{key}" if at else "")
        for key, value in node.items() if isinstance(value, dict) and "_target_" in value
    }  # fmt: skip
    options = {key: value for key, value in node.items() if key not in parts and not key.startswith("_")}
    if inspect.isabstract(target):
        missing = ", ".join(sorted(vars(target)["__abstractmethods__"]))
        raise BadInput(f"{target.__name__} has no {missing}", node["_target_"], "write it, or name a class that has it")
    _check_names(target, options | parts, at)
    if _is_ours(target):
        _check_types(target, options | parts, at)
    else:
        _check_methods(target)
    # Not by Hydra's instantiate: it would take parts that are dataclasses apart into mappings.
    construct = functools.partial(target, **options, **parts, **given)
    if node.get("_partial_"):
        return construct
    try:
        built = construct()
        _check_base_called(built, target)
        return built
    except BadInput as error:
        # The bound of a class inside this one, which the user does not know by name.
        if at and re.fullmatch(r"[A-Z]\w*", str(error.where)) and re.match(r"(\w+) is ", error.what):
            raise BadInput(f"{at}.{error.what}", remedy=error.remedy) from None
        outer, _, name = at.rpartition(".")
        if outer and str(error.where).startswith(f"{name}."):  # refresh.lag of function.dense.refresh
            raise BadInput(error.what, f"{outer}.{error.where}", error.remedy) from None
        raise
    except TypeError as error:
        if "missing" in str(error):  # an option without a default that was deleted
            raise BadInput(str(error), node["_target_"], "see `pyrite options`") from None
        raise


def locate(path: str) -> type:
    """Return the class of a dotted path; raise BadInput if there is none."""
    module, _, name = path.rpartition(".")
    if not module:
        raise BadInput("names no module", path, "name the class by its module, as package.module.Class")
    try:
        target = getattr(importlib.import_module(module), name)
    except SyntaxError as error:
        what, where = f"{module} can't be imported ({error.msg})", f"{error.filename}:{error.lineno}"
        raise BadInput(what, where, "correct this line") from None
    except (ImportError, AttributeError, ValueError) as error:
        if isinstance(error, ModuleNotFoundError) and (refused := missing_extra(error)):
            raise refused from None
        last = traceback.extract_tb(error.__traceback__)[-1]
        if last.filename != __file__ and not last.filename.startswith("<frozen"):  # an import of the user's module
            what, where = f"{module} can't be imported ({error})", f"{last.filename}:{last.lineno}"
            raise BadInput(what, where, "install what it needs, or correct this line") from None
        raise BadInput(f"there is no such class ({error})", path, "is it importable?") from None
    if not isinstance(target, type):
        raise BadInput("is not a class", path, "name the class by its module, as package.module.Class")
    return target


def _is_ours(target: type) -> bool:
    return target.__module__.split(".")[0] in OURS


@functools.cache
def _check_methods(target: type) -> None:
    """Refuse a user's class with a method that can't be called as the base's is."""
    ours = [vars(base) for base in target.__mro__ if _is_ours(base)]
    for own in target.__mro__:
        for name, method in vars(own).items():
            base = next((methods[name] for methods in ours if inspect.isfunction(methods.get(name))), None)
            if _is_ours(own) or name.startswith("_") or base is None or not inspect.isfunction(method):
                continue
            given = [
                each for each in inspect.signature(base).parameters.values() if each.kind <= each.POSITIONAL_OR_KEYWORD
            ]
            required = sum(each.default is each.empty for each in given)
            if not any(_takes(method, count) for count in range(required, len(given) + 1)):
                names = ", ".join(each.name for each in given)
                takes = ", ".join(inspect.signature(method).parameters)
                where = f"{own.__module__}.{own.__name__}.{name}"
                raise BadInput(f"takes ({takes}), but is called with ({names})", where, f"write def {name}({names})")


def _check_base_called(built: object, target: type) -> None:
    """Refuse an object of a user's class whose constructor left out that of our base, and so all that it sets."""
    base = next((each for each in target.__mro__ if _is_ours(each) and "__init__" in vars(each)), None)
    if base is None or target.__init__ is base.__init__:  # type: ignore[misc]
        return
    code = inspect.unwrap(vars(base)["__init__"]).__code__
    names = {each.argval for each in dis.get_instructions(code) if each.opname == "STORE_ATTR"}
    own = vars(built)
    kept = {*own, *own.get("_modules", {}), *own.get("_parameters", {})}  # torch keeps layers and weights there
    if not names & kept and not all(hasattr(built, name) for name in names):  # a dataclass has defaults in the class
        where = f"{target.__module__}.{target.__name__}.__init__"
        raise BadInput(f"does not call that of {base.__name__}", where, "begin it with super().__init__()")


def _takes(method: Any, count: int) -> bool:
    """Return whether a function can be called with `count` positional arguments."""
    try:
        inspect.signature(method).bind(*[None] * count)
    except TypeError:
        return False
    return True


def _check_names(target: type, options: dict[str, Any], at: str) -> None:
    parameters = inspect.signature(target).parameters
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return
    for name in options:
        if name not in parameters:
            known = ", ".join(parameters) or "none"
            what = f"there is no option {at}.{name}" if at else f"{target.__name__} has no option {name}"
            raise BadInput(what, remedy=f"{target.__name__} has {known}")


def _check_types(target: type, options: dict[str, Any], at: str) -> None:
    """Check options against the annotations of the constructor. An argument without one takes any value."""
    from pydantic import ValidationError

    from pyrite.cluster.config.refusals import refusal

    check_arguments(target.__init__, options, None if at else target.__name__, at)  # type: ignore[misc]
    for name, value in options.items():
        if name not in _types_of(target):
            continue
        try:
            _adapter(target, name).validate_python(value, strict=True)
        except ValidationError as error:
            raise refusal(error, f"{at}.{name}" if at else f"{name} of {target.__name__}") from None


@functools.cache
def _types_of(target: type) -> dict[str, Any]:
    return get_type_hints(target.__init__)  # type: ignore[misc]


@functools.cache
def _adapter(target: type, name: str) -> TypeAdapter[Any]:
    """Return what checks an argument of a constructor; making it takes far longer than a check."""
    from pydantic import ConfigDict, TypeAdapter

    return TypeAdapter(_types_of(target)[name], config=ConfigDict(arbitrary_types_allowed=True))


def as_node(named: str | dict[str, Any]) -> dict[str, Any]:
    """Return a class that is given by its path alone as a part without options."""
    return {"_target_": named} if isinstance(named, str) else named


def missing_extra(error: ModuleNotFoundError) -> BadInput | None:
    """Return what to install, in one line; None if the module belongs to no extra."""
    module = (error.name or "").partition(".")[0]
    if module not in EXTRAS:
        return None
    return BadInput(f"{module} is not installed", remedy=f"pip install 'pyrite-ir[{EXTRAS[module]}]'")
