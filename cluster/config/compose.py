"""Composes Hydra overrides into the configuration of one run."""

from __future__ import annotations

import difflib
import functools
import hashlib
import importlib
import inspect
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cluster.config.aliases import named_parts
from cluster.config.extras import missing_extra
from cluster.config.renamed import no_option
from cluster.config.trust import check_classes
from ranking.errors import BadInput

CONF = Path(__file__).parents[1] / "conf"
OURS = ("cluster", "ranking", "sampling", "rl", "pooling")
CHOICES = "choices"
"""Key of the composed configuration under which each group's chosen option stands by name."""
NAMED_GROUPS = ("function", "origin", "method", "stopping", "track")
"""Groups of which several parts may be chosen, each under its name."""
SINGLE_GROUPS = (
    "collection",
    "vectors",
    "objective",
    "optimizer",
    "ranker",
    "policy",
    "selector",
    "agent",
    "reward",
    "batches",
    "teacher",
    "state",
)
"""Groups of which one part is chosen, without a name."""


RENAMED = {"pool": {"worth": "ranking_quality"}}
"""For each primary file: what was called otherwise until the last release, and what it is called now."""


def compose(overrides: Sequence[str], config: str = "config") -> dict[str, Any]:
    """The resolved configuration that overrides give, and under `CHOICES` the options they chose.

    Args:
        overrides: Hydra overrides, e.g. `["ranker=match_pyramid", "training.patience=3"]`.
        config: the primary file of `cluster/conf`.

    Raises:
        BadInput: where an override is malformed, names what is not there or has the wrong type.
    """
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException
    from omegaconf import OmegaConf, open_dict
    from omegaconf.errors import OmegaConfBaseException

    from cluster.config.schema import check_shape, see

    _refuse_old_names(overrides, config)
    overrides = _set_or_add(named_parts(overrides, option))
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(CONF), version_base="1.3"):
            composed = hydra_compose(config, list(overrides), return_hydra_config=True)
        choices = OmegaConf.to_container(composed.hydra.runtime.choices)
        with open_dict(composed):
            del composed["hydra"]
        resolved = OmegaConf.to_container(composed, resolve=True, throw_on_missing=True)
    except (HydraException, OmegaConfBaseException) as error:
        raise BadInput(_reason(error, overrides, config), remedy=see(config)) from None
    if not isinstance(resolved, dict) or not isinstance(choices, dict):
        raise TypeError(f"{config} is not a mapping")
    check_classes(resolved)
    _check_levels(resolved, choices)
    _take_classes(resolved, choices, overrides)
    check_shape({str(key): value for key, value in resolved.items()}, config)
    named = {str(group): option for group, option in choices.items() if not str(group).startswith("hydra")}
    if named.get("objective") == "weighted_sum":  # then it is called by what it adds up
        parts = [
            str(key) for key, value in resolved["objective"].items() if isinstance(value, dict) and key != "weights"
        ]
        named["objective"] = "+".join(parts) or named["objective"]
    return {str(key): value for key, value in resolved.items()} | {CHOICES: named}


def _refuse_old_names(overrides: Sequence[str], config: str) -> None:
    for text in overrides:
        key = text.lstrip("+~").partition("=")[0]
        now = RENAMED.get(config, {}).get(key)
        if now is not None:
            raise BadInput(f"{key} is called {now} now", text, f"write {now} in its place")


def _set_or_add(overrides: Sequence[str]) -> list[str]:
    """The overrides, with options of a class that takes a part's place written so that either part may have them."""
    taken = {text.partition("._target_=")[0] for text in overrides if "._target_=" in text}
    adds = re.compile(r"^\+(?!\+)(\w+)\.")
    return [f"+{text}" if (found := adds.match(text)) and found[1] in taken else text for text in overrides]


def _check_levels(config: dict[Any, Any], choices: dict[Any, Any]) -> None:
    """Refuse a file of an option whose `_target_` stands a level too high or too low."""
    for group in group_options():
        node, chosen = config.get(group), choices.get(group)
        if not isinstance(node, dict):
            continue
        file = f"conf/{group}/{chosen}.yaml" if isinstance(chosen, str) else f"conf/{group}"
        if group in NAMED_GROUPS and isinstance(node.get("_target_"), str):
            name = chosen if isinstance(chosen, str) else "NAME"
            begin = f"with `# @package method.{name}`" if group == "method" else f"with `{name}:`, `_target_` beneath"
            what = f"{group} takes parts by their names, and here _target_ has none"
            raise BadInput(what, file, f"begin the file {begin}; on the command line write +{group}.NAME._target_=…")
        inner = [key for key, value in node.items() if isinstance(value, dict) and "_target_" in value]
        if group in SINGLE_GROUPS and "_target_" not in node and len(inner) == len(node) == 1:
            what = f"_target_ stands under {inner[0]!r}, and {group} is one part without a name"
            raise BadInput(what, file, "begin the file with `_target_: package.module.Class`, its options beneath")


def _take_classes(config: dict[Any, Any], choices: dict[Any, Any], overrides: Sequence[str]) -> None:
    """Let a class that `GROUP._target_=` names take the place of a chosen part, whose other options and name go.

    Options that the class has too, and those that are given, stay.
    """
    given = {text.lstrip("+~").partition("=")[0] for text in overrides}
    for group in SINGLE_GROUPS:
        node = config.get(group)
        if f"{group}._target_" not in given or not isinstance(node, dict) or not isinstance(node.get("_target_"), str):
            continue
        target = _locate(node["_target_"])
        taken = inspect.signature(target).parameters
        for key in [str(key) for key in node]:
            if not key.startswith("_") and key not in taken and f"{group}.{key}" not in given:
                del node[key]
        choices[group] = target.__name__


def _siblings(unknown: str, overrides: Sequence[str], config: str) -> str:
    """What options there are in the place of one that there is not."""
    try:
        there: Any = compose([text for text in overrides if text.lstrip("+~").partition("=")[0] != unknown], config)
    except BadInput:
        return ""
    *path, last = unknown.split(".")
    for depth, key in enumerate(path):
        if not isinstance(there, dict) or key not in there:
            return _siblings_of(there, ".".join(path[:depth]), key)
        there = there[key]
    return _siblings_of(there, ".".join(path), last)


def _siblings_of(node: Any, place: str, asked: str) -> str:
    if not isinstance(node, dict):
        return f"; {place} is a value, without options of its own"
    names = [str(key) for key in node if not str(key).startswith("_") and key != CHOICES]
    if not place:  # the whole configuration: too many to list
        names = difflib.get_close_matches(asked, names, 1)
        return f"; did you mean {names[0]}?" if names else ""
    return f"; {place} has {', '.join(names)}" if names else f"; {place} has no options"


def _reason(error: Exception, overrides: Sequence[str], config: str) -> str:
    """Hydra's message in one line: what it says first, and the cause beneath it where there is one."""
    causes = [error, *([error.__cause__] if error.__cause__ else [])]
    lines = [line.strip() for cause in causes for line in str(cause).splitlines() if line.strip()]
    unknown = re.match(r"Could not (?:override|append to config.*) '([^']+)'\.$", lines[0]) if lines else None
    if unknown:
        known = no_option(unknown[1])
        return known if ":" in known else known + _siblings(unknown[1], overrides, config)
    absent = re.match(r"In '.*': Could not find '([^/']+)/([^']+)'", lines[0]) if lines else None
    if absent and absent[1] in group_options():
        return f"there is no {absent[1]} {absent[2]!r}; there is {', '.join(group_options()[absent[1]])}"
    if lines and lines[0].startswith("Missing mandatory value"):
        where = next((line.removeprefix("full_key: ") for line in lines if line.startswith("full_key")), "")
        return f"{where} has no default; give it with {where}=…"
    unchosen = re.match(r"You must specify '([^']+)'", lines[0]) if lines else None
    if unchosen:
        return f"{unchosen[1]} has no default; choose one of {', '.join(group_options()[unchosen[1]])}"
    noise = ("full_key", "object_type", "reference_type", "^", "See https", "To append")
    said = [line for line in lines if not line.startswith(noise)]
    return "; ".join(dict.fromkeys(said[:4])) or f"can't compose {' '.join(overrides)}"


def group_options() -> dict[str, list[str]]:
    """The options of each configuration group, by reading the names of the files."""
    groups = sorted(folder for folder in CONF.iterdir() if folder.is_dir())
    return {folder.name: sorted(file.stem for file in folder.glob("*.yaml")) for folder in groups}


def groups_of(config: str) -> list[str]:
    """The configuration groups that a primary file chooses from, in their order by name."""
    from omegaconf import OmegaConf

    content: Any = OmegaConf.to_container(OmegaConf.load(CONF / f"{config}.yaml"), resolve=False)
    found: set[str] = set()
    for entry in content["defaults"]:
        if isinstance(entry, dict):
            found |= {str(group) for group in entry if not str(group).startswith(("override ", "optional "))}
        elif entry != "_self_":  # another primary file, whose options this one has too
            found |= set(groups_of(entry))
    return sorted(found)


def digest(content: Any) -> str:
    """16 hex digits that name a piece of configuration."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def option(group: str, name: str) -> dict[str, Any]:
    """The content of one option's file.

    Raises:
        BadInput: where the group has no such option.
    """
    from omegaconf import OmegaConf

    path = CONF / group / f"{name}.yaml"
    if not path.is_file():
        raise BadInput(f"no {group} {name!r}", remedy=f"choose one of {', '.join(group_options()[group])}")
    content = OmegaConf.to_container(OmegaConf.load(path))
    if not isinstance(content, dict):
        raise TypeError(f"{path} is not a mapping")
    return {str(key): value for key, value in content.items()}


def build(node: Any, at: str = "", /, **given: Any) -> Any:
    """The object that a piece of configuration describes by its `_target_`.

    Args:
        node: the piece.
        at: where it stands in the configuration, for messages.
        given: more arguments of the constructor.

    Raises:
        BadInput: where an option is of the wrong type, or the object refuses it.
    """
    target = _locate(node["_target_"])
    parts = {
        key: build(value, f"{at}.{key}" if at else "")
        for key, value in node.items() if isinstance(value, dict) and "_target_" in value
    }  # fmt: skip
    own = {key: value for key, value in node.items() if key not in parts}
    options = {key: value for key, value in own.items() if not key.startswith("_")}
    if inspect.isabstract(target):
        missing = ", ".join(sorted(vars(target)["__abstractmethods__"]))
        raise BadInput(f"{target.__name__} has no {missing}", node["_target_"], "write it, or name a class that has it")
    _check_names(target, options | parts, at)
    if target.__module__.split(".")[0] in OURS:
        _check_types(target, options | parts, at)
    # Not by Hydra's instantiate: it would take parts that are dataclasses apart into mappings.
    made = functools.partial(target, **options, **parts, **given)
    if own.get("_partial_"):
        return made
    try:
        return made()
    except TypeError as error:
        if "missing" in str(error):  # an option without a default that was deleted
            raise BadInput(str(error), node["_target_"], "see `pyrite options`") from None
        raise


def _locate(path: str) -> type:
    module, _, name = path.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        if isinstance(error, ModuleNotFoundError) and (refused := missing_extra(error)):
            raise refused from None
        raise BadInput(f"there is no such class ({error})", path, "is it importable?") from None
    if not isinstance(found, type):
        raise BadInput("is not a class", path, "name the class by its module, as package.module.Class")
    return found


def _check_names(target: type, options: dict[str, Any], at: str) -> None:
    """Hold the names of options against the constructor's."""
    parameters = inspect.signature(target).parameters
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return
    for name in options:
        if name not in parameters:
            there = ", ".join(parameters) or "none"
            what = f"there is no option {at}.{name}" if at else f"{target.__name__} has no option {name}"
            raise BadInput(what, remedy=f"{target.__name__} has {there}")


def _check_types(target: type, options: dict[str, Any], at: str) -> None:
    """Hold options against the annotations of the constructor; one without an annotation may be anything."""
    from typing import get_type_hints

    from pydantic import ConfigDict, TypeAdapter, ValidationError

    from cluster.config.schema import refusal

    hints = get_type_hints(target.__init__)  # type: ignore[misc]
    for name, value in options.items():
        if name not in hints:
            continue
        try:
            TypeAdapter(hints[name], config=ConfigDict(arbitrary_types_allowed=True)).validate_python(
                value, strict=True
            )
        except ValidationError as error:
            raise refusal(error, f"{at}.{name}" if at else f"{name} of {target.__name__}") from None
