"""Groups the points of a study into searches: one per method, which chooses names and draws numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace

from pyrite.analysis.methods import AGENTS, CHECKPOINT, METHOD
from pyrite.cluster.config.override import is_within, key_of, root_of
from pyrite.cluster.plan.point import Point
from pyrite.ranking.errors import BadInput, refuse

COMPARED = (*METHOD, *AGENTS, "objective", CHECKPOINT)
"""Keys by which methods differ. Each of their values has a search of its own."""
MEASURED = (
    "collection", "origin", "validation", "measures", "evaluate", "folds", "limits", "relabel", "strict",
    "scale", "seed",
)  # fmt: skip
"""Options that change what a validation measures, so that no search may choose among their values."""

Suggest = Callable[[str, Sequence[str | None]], str | None]
"""Chooses a value of a parameter, given its name and the values that it may have."""


def is_compared(key: str) -> bool:
    """Return whether each value of a swept key has a separate search."""
    return key in COMPARED or root_of(key) in MEASURED


@dataclass(frozen=True)
class Search:
    """The settings of one method: names to choose among, and intervals to draw from.

    Args:
        method: the overrides that all points have.
        points: one per combination of names.
        keys: the swept keys that a sampler chooses, a part before its options.
    """

    method: tuple[str, ...]
    points: tuple[Point, ...]
    keys: tuple[str, ...]

    def choose(self, suggest: Suggest) -> Point:
        """Return one of the points. An option is chosen only if the part that was chosen before has it."""
        left = list(self.points)
        for key in self.keys:
            values = list(dict.fromkeys(value_of(point, key) for point in left))
            if len(values) > 1:
                chosen = suggest(self.parameter(key, left[0]), values)
                left = [point for point in left if value_of(point, key) == chosen]
        return left[0]

    def parameter(self, key: str, point: Point) -> str:
        """Return the name of a setting, such as `optimizer.lr (adam)`: each alternative has separate settings."""
        parts = [value_of(point, part) for part in self.keys if key.startswith(f"{part}.")]
        return f"{key} ({', '.join(map(str, parts))})" if parts else key

    def check_sampler(self, sampler: str) -> None:
        """Refuse a sampler that can't search here: it draws numbers only, or no settings that depend on others."""
        if sampler == "cmaes" and self.keys:
            what = f"cmaes draws only numbers, and {self.keys[0]} is a choice among values"
            raise BadInput(what, "sampler", f"use sampler=tpe, or give {self.keys[0]} one value")
        settings = [key for point in self.points for key in (*self.keys, *point.drawn)]
        depending = [key for key in settings if sampler == "gp" and is_within(key.rpartition(".")[0], self.keys)]
        what = "gp draws the same settings each time, and {} depends on another choice"
        refuse(depending, what, "sampler", "use sampler=tpe, or compare the alternatives in studies of their own")


def searches(points: Sequence[Point], swept: Set[str]) -> list[Search]:
    """Group points into searches: those that differ only in keys that a sampler may choose.

    If no choice tells points apart, as with lines of `methods=` that differ in their intervals alone, those of the same
    intervals have a search each.
    """
    chosen = [key for key in swept if not is_compared(key)]
    groups: defaultdict[tuple[tuple[str, ...], str | None], list[Point]] = defaultdict(list)
    for point in points:
        method = tuple(text for text in point.overrides if not is_within(key_of(text), chosen))
        groups[method, point.label].append(point)
    by_depth = sorted(chosen, key=lambda key: (key.count("."), key))
    return [
        _search(method, members, by_depth)
        for (method, _), alternatives in groups.items()
        for members in _told_apart(alternatives, by_depth)
    ]


def _told_apart(points: Sequence[Point], chosen: Sequence[str]) -> list[list[Point]]:
    """Return points in groups whose members differ in values of chosen keys: all together, if they do."""
    if len({tuple(value_of(point, key) for key in chosen) for point in points}) == len(points):
        return [list(points)]
    by_intervals: defaultdict[object, list[Point]] = defaultdict(list)
    for point in points:
        by_intervals[point.intervals].append(point)
    return list(by_intervals.values())


def _search(method: tuple[str, ...], members: Sequence[Point], chosen: Sequence[str]) -> Search:
    """Return the search among points that differ in chosen keys; a single point leaves it nothing to choose."""
    keys = tuple(key for key in chosen if len({value_of(point, key) for point in members}) > 1)
    if len(members) == 1:
        return Search(method, tuple(members), keys)
    points = tuple(replace(point, searched=point.keys_within(chosen)) for point in members)
    return Search(method, points, keys)


def value_of(point: Point, key: str) -> str | None:
    """Return the value that a point gives a key; None if it gives none."""
    return point.values.get(key)
