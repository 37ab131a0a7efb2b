"""Keeps running totals of a topic, so that an answer costs the same after ten judgements and after ten thousand, and
estimates what is left of it: relevant documents among the next ones and in the rest, and whether to stop.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import numpy as np
import scipy  # its `stats` is imported when it is first used

from pyrite.pooling.stopping import TargetRecall
from pyrite.pooling.yield_curves import exponential_rest

CURVE_POINTS = 120
"""Points of the curve that is drawn: about as many as can be told apart."""
RECENT = 20
"""Recent judgements that the estimate of the next documents uses."""
AHEAD = 10
"""Documents that this estimate is about."""


class Expectation(NamedTuple):
    """Relevant documents to expect among the next `documents`: their mean, and the central 90% interval."""

    documents: int
    mean: float
    low: int
    high: int


class RecallEstimate(NamedTuple):
    """An estimate of the relevant documents of a topic that are not judged yet.

    Args:
        most: upper bound of the relevant documents left, at the confidence.
        recall: lower bound of the share of the pool's relevant documents that is found.
        may_stop: whether the target is reached.
    """

    most: int
    recall: float
    may_stop: bool


class TopicProgress:
    """The documents judged, relevant or not, in the order of judging.

    Documents that no run has are counted, but the curve and the estimates, which are about the pool, leave them out.

    Args:
        size: documents of the topic's pool: those with this number and higher ones are in no run.
        places: sum of the positions of the pool's relevant documents in the order, ½ for the first
            (`pyrite.pooling.yield_curves.exponential_rest`).
    """

    def __init__(self, size: float = math.inf) -> None:
        self._size = size
        self.places = 0.0
        self._relevant: dict[int, bool] = {}
        self._beyond: dict[int, bool] = {}
        self._found_at: list[int] = []

    def __len__(self) -> int:
        """Documents judged."""
        return len(self._relevant) + len(self._beyond)

    @property
    def found(self) -> int:
        """Relevant documents."""
        return len(self._found_at) + sum(self._beyond.values())

    @property
    def pooled(self) -> tuple[int, int]:
        """Judged documents of the pool, and relevant ones of these."""
        return len(self._relevant), len(self._found_at)

    def set(self, document: int, relevant: bool | None) -> None:
        """Set a document's relevance; None if it is no longer judged.

        A new document comes last; one that changes keeps its position.
        """
        judged = self._relevant if document < self._size else self._beyond
        before = judged.get(document)
        if before is relevant:
            return
        if relevant is None:
            del judged[document]
        else:
            judged[document] = relevant
        if judged is self._beyond:
            return
        if before is None:
            self._count(len(self._relevant), bool(relevant))
            return
        self.places, self._found_at = 0.0, []
        for judgement, each in enumerate(self._relevant.values(), 1):
            self._count(judgement, each)

    def curve(self) -> list[tuple[int, int]]:
        """Return judgements of the pool, and relevant documents found by then, at some of those that found one, the
        last among them.
        """
        every = -(-len(self._found_at) // CURVE_POINTS) or 1
        return [(self._found_at[number - 1], number) for number in range(len(self._found_at), 0, -every)][::-1]

    def ahead(self, left: int) -> Expectation | None:
        """Estimate the relevant documents among the pool's next few, if they are like the last few; None if none is
        left. A good order finds fewer and fewer, so this is rather too high than too low.
        """
        recent = list(islice(reversed(self._relevant.values()), RECENT))
        return None if left < 1 else _expectation(sum(recent), len(recent), min(AHEAD, left))

    def recall(self, size: int, known: int, rule: TargetRecall) -> RecallEstimate | None:
        """Compute the decision of `TargetRecall` after the judgements so far, from their sums; None if nothing relevant
        was found in the pool yet.

        Args:
            size: documents of the topic's pool that were not judged before.
            known: relevant ones among those judged before: they count as found.
            rule: the rule, with the exponential curve.
        """
        judged, relevant = self.pooled
        if not relevant:
            return None
        rest, found = size - judged, relevant + known
        sums = np.array([judged]), np.array([relevant]), np.array([self.places])
        expected = exponential_rest(*sums, size, rule.confidence)
        most = min(int(scipy.stats.poisson.ppf(rule.confidence, expected[0])), rest)
        stop = bool(rule.reached(np.array([found]), np.array([rest]), expected)[0])
        return RecallEstimate(most, found / (found + most), stop)

    def _count(self, judgement: int, relevant: bool) -> None:
        if relevant:
            self.places += judgement - 0.5
            self._found_at.append(judgement)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicProgress) and self._in_order() == other._in_order()

    def _in_order(self) -> list[tuple[int, bool]]:
        return [*self._relevant.items(), *self._beyond.items()]

    __hash__ = None  # type: ignore[assignment]


@lru_cache(maxsize=(RECENT + 1) ** 2 * AHEAD)
def _expectation(found: int, judged: int, ahead: int) -> Expectation:
    """Estimate from a share with Jeffreys' prior, Beta(½, ½): the number among the next documents is beta-binomial."""
    number = scipy.stats.betabinom(ahead, 0.5 + found, 0.5 + judged - found)
    return Expectation(ahead, float(number.mean()), int(number.ppf(0.05)), int(number.ppf(0.95)))
