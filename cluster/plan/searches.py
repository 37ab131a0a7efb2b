"""Groups the points of a study into searches: one per method, which chooses names and draws numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace

from pyrite.analysis.methods import AGENTS, CHECKPOINT, METHOD
from pyrite.cluster.config.override import key_of, root_of, values_by_key
from pyrite.cluster.plan.point import Point
from pyrite.ranking.errors import BadInput

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
        settings = [key for point in self.points for key in (*self.keys, *(key for key, _ in point.intervals))]
        depending = [key for key in settings if any(key.startswith(f"{part}.") for part in self.keys)]
        if sampler == "gp" and depending:
            what = f"gp draws the same settings each time, and {depending[0]} depends on another choice"
            raise BadInput(what, "sampler", "use sampler=tpe, or compare the alternatives in studies of their own")


def searches(points: Sequence[Point], swept: Set[str]) -> list[Search]:
    """Group points into searches: those that differ only in keys that a sampler may choose."""
    chosen = {key for key in swept if not is_compared(key)}

    def is_chosen(key: str) -> bool:
        return any(key == each or key.startswith(f"{each}.") for each in chosen)

    groups: dict[tuple[tuple[str, ...], str | None], list[Point]] = {}
    for point in points:
        method = tuple(text for text in point.overrides if not is_chosen(key_of(text)))
        groups.setdefault((method, point.label), []).append(point)
    found, by_depth = [], sorted(chosen, key=lambda key: (key.count("."), key))
    for (method, _), members in groups.items():
        if len(members) > 1:
            members = [
                replace(each, searched=tuple(filter(is_chosen, map(key_of, each.overrides)))) for each in members
            ]
        keys = [key for key in by_depth if len({value_of(point, key) for point in members}) > 1]
        found.append(Search(method, tuple(members), tuple(keys)))
    return found


def value_of(point: Point, key: str) -> str | None:
    """Return the value that a point gives a key; None if it gives none."""
    return values_by_key(point.overrides).get(key)
