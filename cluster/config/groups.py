"""Lists the groups of options, the names that each group has, and what a name means."""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

import yaml

from pyrite.cluster.config.meant import no_name
from pyrite.cluster.config.nested import parts_within
from pyrite.cluster.config.parts import PARTS
from pyrite.cluster.config.signatures import defaults
from pyrite.cluster.lazy import omegaconf

CONF = Path(__file__).parents[1] / "conf"
OF_SCALES = frozenset({"recipe", "cut"})
"""Groups whose names follow from the ranker and the scale."""
CHOICES = "choices"
"""The key of a composed configuration that holds the chosen name of each group."""
NAMED_GROUPS = ("function", "origin", "method", "stopping", "track")
"""Groups of which several parts can be chosen, each under its name."""
SINGLE_GROUPS = (
    "collection", "vectors", "objective", "optimizer", "ranker", "policy", "selector", "agent", "reward", "batches",
    "teacher", "state", "trial_scheduler", "until",
)  # fmt: skip
"""Groups of which one part is chosen, without a name."""
PARTIAL = ("optimizer",)
"""Groups whose classes need arguments that only a run has."""


@cache
def group_options() -> dict[str, list[str]]:
    """Return the names in each group: those of files in `conf/` and those of `PARTS`."""
    names = {folder.name: {file.stem for file in folder.glob("*.yaml")} for folder in CONF.iterdir() if folder.is_dir()}
    for group, parts in PARTS.items():
        names[group] = names.get(group, set()) | set(parts)
    return {group: sorted(names[group]) for group in sorted(names)}


@cache
def chosen_by_default(config: str) -> dict[str, Any]:
    """Return what a primary file chooses of each group: names, None, or `???` if one must be given."""
    chosen: dict[str, Any] = {}
    for entry in yaml.safe_load((CONF / f"{config}.yaml").read_text("utf-8"))["defaults"]:
        chosen |= entry if isinstance(entry, dict) else chosen_by_default(entry) if entry != "_self_" else {}
    return {str(group).removeprefix("optional "): name for group, name in chosen.items()}


@cache
def groups_of(config: str) -> list[str]:
    """Return the groups that a primary file chooses from, sorted by name."""
    return sorted(chosen_by_default(config).keys() - OF_SCALES)


def option(group: str, name: str) -> dict[str, Any]:
    """Return what a name of a group refers to, with the defaults of its classes; refuse an unknown name."""
    return copy.deepcopy(_option(group, name))


@functools.lru_cache(maxsize=1000)
def _option(group: str, name: str) -> dict[str, Any]:
    if name in PARTS.get(group, {}):
        node = part_node(group, name)
    else:
        path = CONF / group / f"{name}.yaml"
        if not re.fullmatch(r"[\w-]+", name) or not path.is_file():  # a value may be longer than a file name
            raise no_name(group, name, group_options()[group])
        node = cast(dict[str, Any], omegaconf.OmegaConf.to_container(omegaconf.OmegaConf.load(path)))
    fill_defaults(node)
    return node


@cache
def brought(group: str, name: str | None) -> dict[str, Any]:
    """Return what the file of a name chooses of other groups, by group; an unknown name chooses nothing."""
    entries = option(group, name).get("defaults", []) if name in group_options()[group] else []
    return {key.partition("@_global_.")[2]: names for entry in entries for key, names in entry.items()}


def without_choices(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a composed configuration, without the chosen names."""
    return {key: value for key, value in config.items() if key != CHOICES}


def name_of(group: str, path: str) -> str | None:
    """Return the name in a group that refers to a class; None if it has none.

    Args:
        path: the dotted path of the class.
    """
    return _names(group).get(path)


@cache
def _names(group: str) -> dict[str, str]:
    nodes = {name: option(group, name) for name in group_options().get(group, [])}
    parts = {name: node.get(name, node) if group in NAMED_GROUPS else node for name, node in nodes.items()}
    return {str(part.get("_target_")): name for name, part in parts.items()}


def part_node(group: str, name: str) -> dict[str, Any]:
    """Return what a name in `PARTS` refers to, under its name if parts of the group have names."""
    node: dict[str, Any] = {"_target_": PARTS[group][name]} | ({"_partial_": True} if group in PARTIAL else {})
    return {name: node} if group in NAMED_GROUPS else node


def fill_defaults(node: Any) -> None:
    """Add to each part, in place, the options that its class declares and the configuration leaves out."""
    for part in parts_within(node):
        for key, value in defaults(str(part["_target_"])).items():
            part.setdefault(key, copy.deepcopy(value))
