"""Takes turns among the replicas of each shard, those that are lost last."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable

AWAY = 2.0
"""Seconds in which a replica that is lost is asked only where no other has an answer."""
log = logging.getLogger(__name__)


class Turns:
    """Which replica of a shard is asked next. Every replica finds the same, so that no list depends on it.

    An actor has a place: those of the first replica come first, in the order of the shards.

    Args:
        shards: how many there are.
        replicas: of each.
        clock: seconds.
    """

    def __init__(self, shards: int, replicas: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.shards, self.replicas, self.clock = shards, replicas, clock
        self._lost: dict[int, float] = {}  # until when a place is asked last
        self._count = itertools.count()

    def places(self, shard: int) -> list[int]:
        """Of a shard's replicas."""
        return list(range(shard, self.shards * self.replicas, self.shards))

    def order(self, shard: int) -> list[int]:
        """The same as they are to be asked: each comes first in its turn."""
        places, first = self.places(shard), next(self._count) // self.shards % self.replicas
        now = self.clock()
        return sorted(places[first:] + places[:first], key=lambda place: self._lost.get(place, now) > now)

    def lose(self, place: int) -> None:
        """One did not answer."""
        if place not in self._lost:
            log.warning("%s of the index is lost", self._name(place))
        self._lost[place] = self.clock() + AWAY

    def find(self, place: int) -> None:
        """One has answered."""
        if self._lost.pop(place, None) is not None:
            log.warning("%s of the index is back", self._name(place))

    @property
    def lost(self) -> frozenset[int]:
        """Shards that have lost every replica."""
        return frozenset(n for n in range(self.shards) if all(place in self._lost for place in self.places(n)))

    def _name(self, place: int) -> str:
        replica, shard = divmod(place, self.shards)
        return f"shard {shard}" if self.replicas == 1 else f"replica {replica} of shard {shard}"
