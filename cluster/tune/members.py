"""Holds the population of a method: its runs, the settings that each is under, and what is known of settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from cluster.config.changes import AFTER
from cluster.plan.sweep import Planned, Point, draws, plan

Settings = dict[str, float]


@dataclass(eq=False)
class Member:
    """A run of a population.

    Args:
        planned: the run.
        drawn: the settings that it begins with.
        now: those that it is under now.
        before: validation by epoch until it went on from another's state.
        over: whether it trains no further: it is stopped, has come to its end or has failed.
        alone: whether it is compared no more, and is only to come to its end.
    """

    planned: Planned
    drawn: Settings
    now: Settings
    before: dict[int, float] = field(default_factory=dict)
    over: bool = False
    alone: bool = False


class Population:
    """The runs of one method, which are compared after every so many epochs.

    Args:
        number: of the method.
        point: the method, with its intervals.
        seeds: the one seed of all.
        samples: runs that it begins with.
        every: epochs between two comparisons, by those that a run has at most.
    """

    def __init__(
        self, number: int, point: Point, seeds: Sequence[int], samples: int, every: Callable[[int], int]
    ) -> None:
        self.number, self.point, self.seeds = number, point, seeds
        self.part = 0
        self.known: list[tuple[float, tuple[float, ...], float]] = []
        self.members: dict[str, Member] = {}
        self.queue: list[Member] = []
        for shares in draws(len(point.intervals), samples):
            drawn = self.settings(shares)
            planned = self._planned(drawn, [])
            self.members.setdefault(planned.name, Member(planned, drawn, drawn))
        self.epochs: int = planned.config["training"]["max_epochs"]
        self.every = every(self.epochs)

    @property
    def end(self) -> int | None:
        """The epoch at which the part of now ends; None: with the runs themselves."""
        end = self.every * (self.part + 1)
        return end if end < self.epochs else None

    @property
    def training(self) -> list[Member]:
        """The runs that train on, in the order in which they were proposed."""
        return [member for member in self.members.values() if not member.over]

    @property
    def compared(self) -> list[Member]:
        """Those of them that are compared."""
        return [member for member in self.training if not member.alone]

    def settings(self, shares: Sequence[float]) -> Settings:
        """What intervals give at shares of them."""
        return {key: interval.at(share) for (key, interval), share in zip(self.point.intervals, shares, strict=True)}

    def example(self) -> Planned:
        """A run whose settings all change."""
        count = len(self.point.intervals)
        return self._planned(self.settings([0.75] * count), [{AFTER: self.every, **self.settings([0.25] * count)}])

    def following(self, ahead: Member, settings: Settings) -> Planned | None:
        """The run that goes on from one at the end of this part under other settings; None where they are no others."""
        planned = self._planned(ahead.drawn, [*ahead.planned.config["changes"], {AFTER: self.end or 0, **settings}])
        return None if settings == ahead.now or planned.name in self.members else planned

    def follow(self, ahead: Member, settings: Settings, curve: Mapping[int, float]) -> None:
        """Take in the run that goes on from one.

        Args:
            ahead: the one.
            settings: from here on.
            curve: its validation by epoch.
        """
        planned = self.following(ahead, settings)
        assert planned is not None
        assert self.end is not None
        before = {epoch: value for epoch, value in curve.items() if epoch <= self.end}
        self.members[planned.name] = Member(planned, ahead.drawn, settings, before)

    def gains(
        self, members: Sequence[Member], curves: Sequence[Mapping[int, float]]
    ) -> list[tuple[float, tuple[float, ...], float]]:
        """What validation gained in this part: where the part began (0 to 1), settings as shares, and the gain.

        Args:
            members: that are compared.
            curves: validation by epoch of each.
        """
        assert self.end is not None
        begin = self.end - self.every
        found = []
        for member, curve in zip(members, curves, strict=True):
            shares = (interval.share_of(member.now[key]) for key, interval in self.point.intervals)
            gain = curve[self.end] - (curve.get(begin, 0.0) if begin else 0.0)
            found.append((begin / self.epochs, tuple(min(max(share, 0.0), 1.0) for share in shares), gain))
        return found

    def _planned(self, drawn: Settings, changes: Sequence[Mapping[str, float]]) -> Planned:
        """A run by the settings that it begins with, and what they change to."""
        texts = [f"{key}={value}" for key, value in drawn.items()]
        if changes:
            each = ("{" + ",".join(f"{key}:{value}" for key, value in change.items()) + "}" for change in changes)
            texts.append(f"changes=[{','.join(each)}]")
        return plan(self.point, texts, self.seeds)[0]
