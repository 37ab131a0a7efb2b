"""Finds the options that apply to each point of a study: those that the point's parts have.

`policy=learned,random policy.checkpoint=outputs/agent` compares two policies, of which only one has this option. The
other runs without it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from functools import cache, partial
from typing import Any

from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.groups import CHOICES, brought, group_options, option
from pyrite.cluster.config.override import root_of, values_by_key
from pyrite.cluster.plan.point import Point

PARTS = (
    "batches", "collection", "objective", "optimizer", "peft", "policy", "ranker", "scheduler", "selector", "teacher",
    "vectors",
)  # fmt: skip
"""Groups of which a point chooses one name, by an override or by default."""
LISTS = ("function", "origin")
"""Groups of which a point may choose several: `function.bm25.depth` is an option of one of them."""


OF_FUNCTION = {"negatives": "function", "selectors": "function", "selector": "function"}
"""Groups that may hold options of one function, as `selector.bm25`."""
CHOSEN = re.compile(r"(?:\w+@)?(\w+)")
"""The names in a choice of several, as `[run_file@hdct,bm25]`."""


def applicable_overrides(points: Sequence[Point], given: Set[str]) -> list[Point]:
    """Return the points without the options that their parts do not have.

    Two kinds of options are left out: one that another point has, and one that the experiment gives to a part which
    the user replaced. An option that no point has stays, and composing refuses it.

    Args:
        given: the user's keys.
    """
    pairs = [(point.overrides, key) for point in points for key in (*point.texts, *point.drawn)]
    optional = {key for overrides, key in pairs if has_option(overrides, key)}
    of_some = {key for overrides, key in pairs if is_of_one(overrides, key)}
    return [point.with_options(partial(_applies, point.overrides, given, optional, of_some)) for point in points]


def _applies(overrides: Sequence[str], given: Set[str], optional: Set[str], of_some: Set[str], key: str) -> bool:
    """Return whether an option stays in a point with these overrides.

    Args:
        given: the user's keys.
        optional: keys that a point's parts have.
        of_some: keys of the selector or the number of negatives of one function that a point chooses.
    """
    root, of_experiment = root_of(key), key not in given
    if of_experiment and key != root and f"{root}._target_" in given:
        return False
    if key in of_some:
        return _chooses(overrides, key)
    leaves = key in optional or (of_experiment and root in given)
    return has_option(overrides, key) or not leaves


def has_option(overrides: Sequence[str], key: str) -> bool:
    """Return whether the parts that overrides choose have the option `key`, as `policy.weights`.

    An option of a function or an origin, as `function.bm25.k1`, belongs to the runs that choose it, and to those that
    choose none by an override. An option outside `PARTS` and `LISTS`, as `seed`, belongs to every run.
    """
    group, name = f"{key}.".split(".")[:2]
    chosen = values_by_key(overrides)
    if not name or is_of_one(overrides, key):
        return True
    if group in LISTS:
        return group not in chosen or _chooses(overrides, key)
    if group not in PARTS:
        return True
    part = {**_defaults(), **brought("ranker", chosen.get("ranker")), **chosen}[group]
    if part in (None, "null"):
        return False
    return part not in group_options()[group] or name in _options(group, part)  # composing refuses an unknown part


def _chooses(overrides: Sequence[str], key: str) -> bool:
    """Return whether overrides choose the function or origin of an option, as `function.bm25.depth`."""
    group, name = f"{key}.".split(".")[:2]
    return name in CHOSEN.findall(values_by_key(overrides).get(OF_FUNCTION.get(group, group), ""))


def is_of_one(overrides: Sequence[str], key: str) -> bool:
    """Return whether a key sets the selector or the number of negatives of one function, as `selector.bm25`."""
    return root_of(key) in OF_FUNCTION and _chooses(overrides, key)


@cache
def _defaults() -> dict[str, Any]:
    defaults: dict[str, Any] = compose([])[CHOICES]
    return defaults


@cache
def _options(group: str, part: str) -> Set[str]:
    return option(group, part).keys()
