"""Refuses values of options in one line: names that a group lacks, several values, and what pydantic refuses."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyrite.cluster.config.grammar import LABELLED
from pyrite.cluster.config.groups import chosen_by_default, group_options
from pyrite.cluster.config.meant import no_name, see
from pyrite.cluster.config.removed import REMOVED_PARTS, why_removed
from pyrite.ranking.errors import BadInput, refuse

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override
    from pydantic import ValidationError

MAIN_OPTION = {"guard": "relative"}
"""The option that a value in the place of a mapping is meant for."""


def chooses(override: Override) -> bool:
    """Return whether an override chooses names of a group; all others set a value."""
    is_group = override.key_or_group in group_options() and not isinstance(override.value(), dict)
    return is_group or override.package is not None


def check_names(override: Override, config: str) -> None:
    """Refuse an override that chooses of a group that a verb does not have, or names that the group does not have."""
    group, value = override.key_or_group, override.value()
    names = {True: override.sweep_string_iterator, False: lambda: value if isinstance(value, list) else [value]}
    for name in names[override.is_sweep_override() and not override.is_interval_sweep()]():
        check_name(group, name, config)


def check_name(group: str, name: Any, config: str = "config") -> None:
    """Refuse a name that a group does not have. No name at all is one where nothing is the default."""
    known = group_options()[group]
    reason = REMOVED_PARTS.get(f"{group}={name}")
    refuse(reason, f"there is no {group}={name} any more: {reason}")
    refuse(
        name in (None, "") and chosen_by_default(config).get(group, name) is not None,
        f"{group} has no value",
        remedy=f"choose one of {', '.join(known)}",
    )
    if name not in (None, "", *known):
        raise no_name(group, name, known, config)


def several_values(key: str, value: str, takes_list: bool, is_text: bool) -> str:
    """Return why an option can't have several values here: it takes a list, or a single value.

    Args:
        value: the values, as they were typed.
        is_text: whether the option holds a text, which may have a comma in it.
    """
    if takes_list:
        return f"{key} takes a list; write {key}=[{value}]"
    one = f"{key} takes one value here, not {value}"
    return f"{one}; if it has a comma in it, write \"{key}='{value}'\"" if is_text else one


TYPES = re.compile(r"(constrained-|literal\[|list\[|dict\[).*|int|float|str|bool|[A-Z]\w*Config")
"""What pydantic adds to the place of an error for each type that an option of several types may have."""


def _nearest(errors: Sequence[Any]) -> tuple[Any, str]:
    """Return pydantic's first error and its message; of an option of several types the error of the type that fits."""
    option = tuple(itertools.takewhile(lambda part: not TYPES.fullmatch(str(part)), errors[0]["loc"]))
    of_option = [each for each in errors if each["loc"][: len(option)] == option]
    deepest = max(len(each["loc"]) for each in of_option)
    near = [each for each in of_option if not each["type"].endswith(("_type", "literal_error"))]
    near = near or [each for each in of_option if len(each["loc"]) == deepest]
    others = [each["msg"].removeprefix("Input should be ") for each in near[1:]]
    return near[0], " or ".join([near[0]["msg"], *others])


PLAIN = {
    r"Input should be ": "choose ",
    r"greater than or equal to (\S+)": r"a number from \1 up",
    r"greater than (\S+)": r"a number above \1",
    r"less than or equal to (\S+)": r"a number of at most \1",
    r"a valid integer or a valid number|a valid number": "a number",
    r"a valid integer": "a whole number",
    r"a valid boolean": "true or false",
    r"a valid string": "a text",
    r"a valid dictionary( or instance of \w+)?": "a mapping",
    r".*a valid list.*|.*Sequence.*": "give a list, as [A,B]",
    r" item(s?) after validation, not \d+$": r" value\1",
}
"""Plain words by those of pydantic."""


def missing(key: str, _: Any = None, config: str = "config") -> BadInput:
    """Return the error for an option that a configuration does not have."""
    if key in group_options():
        return BadInput(f"{key} has no value", remedy=f"choose one of {', '.join(group_options()[key])}")
    return BadInput(f"there must be an option {key}", remedy=see(config))


def no_option(key: str, config: str, hint: str = "") -> BadInput:
    """Return the error for an option that does not exist, or does not exist any more."""
    if reason := why_removed(key):
        return BadInput(f"there is no option {key} any more: {reason}")
    what, _, meant = f"there is no option {key}{hint}".rpartition("; ")
    return (
        BadInput(what, remedy=meant)
        if meant.endswith("?")
        else BadInput(f"there is no option {key}{hint}", remedy=see(config))
    )


def _no_mapping(key: str, value: Any, _: str) -> BadInput:
    name = MAIN_OPTION.get(key)
    return BadInput(f"{key} is {value!r}", remedy=f"write {key}.{name}={value}" if name else "give a mapping")


def _no_part(key: str, value: Any, _: str) -> BadInput:
    return BadInput(f"{key} is {value!r}", remedy=f"leave this out and set its options, as {key}.OPTION=VALUE")


def _of_each_function(key: str, value: Any, config: str) -> BadInput:
    count = "count" if config == "mine" else "sampling.negatives"
    what = f"{key} is of single functions, as {key}.bm25=1"
    return BadInput(what, remedy=f"for all functions give {count}={value}")


def _no_method(key: str, value: Any, _: str) -> BadInput:
    return BadInput(f"{key} is {value!r}", remedy=f"{LABELLED}; without names give sweeps, as selector=uniform,top")


def _no_topics(key: str, value: Any, config: str) -> BadInput:
    words = "all, even, odd or " if config == "pool" else ""
    return BadInput(f"{key} is {value!r}", remedy=f"give {words}a list of names, as [301,302]")


def _no_labels(key: str, value: Any, _: str) -> BadInput:
    what = f"{key.removesuffix('.[key]')} is {value!r}"
    return BadInput(what, remedy="give words, as labels=[not,partly,fully], or words by grades, as labels={0:not,1:so}")


def _of_ray(key: str, value: Any, _: str) -> BadInput:
    option = key.removesuffix(f".{value}.[key]")
    remedy = f"leave it out; cores, GPUs and memory are options next to it, as {option.removesuffix('custom')}cpu=2"
    return BadInput(f"{value} is no custom resource", option, remedy)


Refusal = Callable[[str, Any, str], BadInput]
OF_ERRORS: Mapping[str, Refusal] = {
    r"missing .*": missing,
    r"(list_type|literal_error) topics .*": _no_topics,
    r"\w+ labels.*": _no_labels,
    r"value_error (\w+\.)?custom\..*": _of_ray,
    r"extra_forbidden .*": lambda key, _, config: no_option(key, config),
    r"\w+ negatives int .*": _of_each_function,
    r"\w+ methods\.\d+ .*": _no_method,
    r"model_type .*": _no_mapping,
    r"(is_instance_of|dataclass_exact_type) (?!.*Sequence).*": _no_part,
}
"""What is refused otherwise than by pydantic's words, by its error, the key, the type of the value and the message."""


def refusal(error: ValidationError, option: str = "", config: str = "config") -> BadInput:
    """Return the first error of pydantic in one line."""
    first, message = _nearest(error.errors())
    key = option or ".".join(part for part in map(str, first["loc"]) if not TYPES.fullmatch(part))
    value = first["input"]
    described = f"{first['type']} {key} {type(value).__name__} {message}"
    if special := next((of for pattern, of in OF_ERRORS.items() if re.fullmatch(pattern, described)), None):
        return special(key, value, config)
    for theirs, plain in PLAIN.items():
        message = re.sub(theirs, plain, message)
    return BadInput(f"{key} is {value!r}", remedy=message[0].lower() + message[1:])
