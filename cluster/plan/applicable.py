"""Finds the options that apply to each point of a study: those that the point's parts have.

`policy=learned,random policy.checkpoint=outputs/agent` compares two policies, of which only one has this option. The
other runs without it.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from functools import cache

from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.groups import CHOICES, group_options, option
from pyrite.cluster.config.override import key_of, root_of, values_by_key
from pyrite.cluster.plan.point import Point

PARTS = (
    "batches", "collection", "objective", "optimizer", "peft", "policy", "ranker", "scheduler", "selector", "teacher",
    "vectors",
)  # fmt: skip
"""Groups of which a point chooses one name, by an override or by default."""
LISTS = ("function", "origin")
"""Groups of which a point may choose several: `function.bm25.depth` is an option of one of them."""


@dataclass(frozen=True)
class _Keys:
    """The keys of a study's points, by which an option belongs to each point or to some.

    Args:
        given: the user's keys.
        optional: keys that a point's parts have.
        of_some: keys of the selector or the number of negatives of one function that a point chooses.
        experiments: keys of the experiment for parts that the user replaced.
        own: parts whose class the user named.
    """

    given: Set[str]
    optional: Set[str]
    of_some: Set[str]
    experiments: Set[str]
    own: Set[str]

    def apply(self, point: Point, key: str) -> bool:
        """Return whether an option stays in a point."""
        if "." in key and key not in self.given and root_of(key) in self.own:
            return False
        if key in self.of_some:
            return _chooses(point.overrides, key)
        return has_option(point.overrides, key) or key not in self.optional | self.experiments


def applicable_overrides(points: Sequence[Point], given: Set[str]) -> list[Point]:
    """Return the points without the options that their parts do not have.

    Two kinds of options are left out: one that another point has, and one that the experiment gives to a part which
    the user replaced. An option that no point has stays, and composing refuses it.
    """
    pairs = {(point.overrides, key): None for point in points for key in _keys(point)}
    keys = _Keys(
        given=given,
        optional={key for overrides, key in pairs if has_option(overrides, key)},
        of_some={key for overrides, key in pairs if _is_of_one(overrides, key)},
        experiments={key for _, key in pairs if key not in given and root_of(key) in given},
        own={key.removesuffix("._target_") for key in given if key.endswith("._target_")},
    )
    return [
        replace(
            point,
            overrides=tuple(text for text in point.overrides if keys.apply(point, key_of(text))),
            intervals=tuple(pair for pair in point.intervals if keys.apply(point, pair[0])),
        )
        for point in points
    ]


def has_option(overrides: Sequence[str], key: str) -> bool:
    """Return whether the parts that overrides choose have the option `key`, as `policy.weights`.

    An option of a function or an origin, as `function.bm25.k1`, belongs to the runs that choose it, and to those that
    choose none by an override. An option outside `PARTS` and `LISTS`, as `seed`, belongs to every run.
    """
    group, _, name = key.partition(".")
    if group in LISTS and name:
        return group not in values_by_key(overrides) or _chooses(overrides, key)
    if group not in PARTS or not name or _is_of_one(overrides, key):
        return True
    chosen = values_by_key(overrides)
    part = chosen.get(group) or (group == "objective" and _own_objective(chosen.get("ranker"))) or _defaults()[group]
    options = set() if part in (None, "null") else _options(group, part)
    return options is None or name.split(".")[0] in options


def _chooses(overrides: Sequence[str], key: str) -> bool:
    """Return whether overrides choose the function or origin of an option, as `function.bm25.depth`."""
    group, _, name = key.partition(".")
    chosen = values_by_key(overrides).get("origin" if group == "origin" else "function", "")
    names = [part.rpartition("@")[2] for part in chosen.strip("[]").replace(" ", "").split(",")]
    return bool(name) and name.split(".")[0] in names


def _is_of_one(overrides: Sequence[str], key: str) -> bool:
    """Return whether a key sets the selector or the number of negatives of one function, as `selector.bm25`."""
    return root_of(key) in ("negatives", "selectors", "selector") and _chooses(overrides, key)


def _keys(point: Point) -> list[str]:
    return [*map(key_of, point.overrides), *(key for key, _ in point.intervals)]


@cache
def _defaults() -> dict[str, str | None]:
    return {group: name for group, name in compose([])[CHOICES].items() if group in PARTS}


@cache
def _own_objective(ranker: str | None) -> str | None:
    """Return the default objective of a ranker; None if it has none."""
    if ranker not in group_options()["ranker"]:
        return None
    named = option("ranker", ranker).get("defaults", [])
    return next((entry[key] for entry in named for key in entry if "/objective@" in key), None)


@cache
def _options(group: str, part: str) -> Set[str] | None:
    """Return the options of a part; None if there is no such part, which composing refuses."""
    return option(group, part).keys() if part in group_options()[group] else None
