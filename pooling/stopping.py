"""Decides when to stop judging from what an assessor knows at that time, and measures the savings and the cost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import gammainccinv, pdtr

from pyrite.pooling.average_precision import PoolEvaluation
from pyrite.pooling.correlation import kendall_taus
from pyrite.pooling.judging_order import JudgingOrder
from pyrite.pooling.pool import Pool
from pyrite.pooling.ranking_quality import RUNS, RankingQuality, Row
from pyrite.pooling.yield_curves import YieldCurve, exponential, exponential_rest, power
from pyrite.ranking.bounds import Between, Positive, checked

AT_ONCE = 8
"""Rankings that `StableRanking` computes at once."""
CURVES: dict[str, YieldCurve] = {"exponential": exponential, "power": power}


class StoppingRule(ABC):
    """A rule that decides when to stop. `str` of a rule is its name in tables.

    Attributes:
        recall: the target that topics are compared with, also for a rule without a target.
    """

    recall: float = 0.9

    @abstractmethod
    def stops(self, pool: Pool, order: JudgingOrder) -> NDArray[np.int64]:
        """Return the judgements that each topic has had when judging stops: int64 [topics], its whole pool if it never
        does.

        A rule sees the grades of the documents judged so far, never those still to come.
        """

    def applied(self, pool: Pool, order: JudgingOrder, seed: int) -> tuple[JudgingOrder, NDArray[np.int64]]:
        """Return the order that is judged with this rule, whose rest may differ, and when it `stops`."""
        return order, self.stops(pool, order)


class TopicRule(StoppingRule):
    """A rule that stops each topic separately, wherever its judgements are in the order."""

    @abstractmethod
    def holds(self, relevant: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return after which judgements (bool [documents of the topic's pool], in order) one would stop, each from
        those up to it only: bool [documents].
        """

    def stops(self, pool: Pool, order: JudgingOrder) -> NDArray[np.int64]:
        return self.firsts(pool.relevant[order.flat], order.offsets)

    def first(self, relevant: NDArray[np.bool_]) -> int:
        """Return the number of judgements after which one would stop, all if one never would; for `relevant` see
        `holds`.
        """
        return int(self.firsts(relevant, np.array([0, len(relevant)]))[0])

    def firsts(self, relevant: NDArray[np.bool_], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return `first` for each topic, whose documents begin at `offsets`: int64 [topics + 1]."""
        held = [self.holds(of_topic) for of_topic in np.split(relevant, offsets[1:-1])]
        return np.array([holds.argmax() + 1 if holds.any() else len(holds) for holds in held], np.int64)


class FoundNothing(TopicRule):
    """Stop a topic after a number of judgements in a row that found nothing relevant.

    Args:
        in_a_row: the number of judgements.
    """

    @checked
    def __init__(self, in_a_row: Annotated[int, Positive] = 50) -> None:
        self.in_a_row = in_a_row

    def __str__(self) -> str:
        return f"nothing in {self.in_a_row}"

    def holds(self, relevant: NDArray[np.bool_]) -> NDArray[np.bool_]:
        judgement = np.arange(1, len(relevant) + 1)
        last = np.maximum.accumulate(np.where(relevant, judgement, 0))
        return judgement - last >= self.in_a_row


class TargetRecall(TopicRule):
    """Stop a topic once the yield so far implies that this share of its pool's relevant documents is found.

    A yield curve (`pyrite.pooling.yield_curves`, with its sources) estimates how many relevant documents to expect in
    the rest, and the rest may hold no more than the target allows, at the confidence. This suits every order of
    judging: with a random one it continues to the target's share of the pool, with a good one it stops early.

    The two curves differ in the tail, which is not observed yet. `power` expects a heavy one: it reaches the target and
    overshoots it by far. `exponential` stops much earlier, and too early on the topics with a heavy tail. As the rule
    is tried after each judgement, the confidence is not the share of topics that reach the target.

    Args:
        recall: the target, above 0 and below 1.
        confidence: confidence that the target is reached, .5 or more and below 1.
        curve: how the yield falls: `exponential` or `power`.
    """

    @checked
    def __init__(
        self,
        recall: Annotated[float, Between(0, 1, exclude="both")] = 0.9,
        confidence: Annotated[float, Between(0.5, 1, exclude="high")] = 0.95,
        curve: Literal["exponential", "power"] = "exponential",
    ) -> None:
        self.recall, self.confidence, self.curve = recall, confidence, curve

    def __str__(self) -> str:
        return f"recall {self.recall:g} at {self.confidence:g}, {self.curve}"

    def holds(self, relevant: NDArray[np.bool_]) -> NDArray[np.bool_]:
        found = np.cumsum(relevant, dtype=np.int64)
        rest = len(relevant) - np.arange(1, len(relevant) + 1)
        return self.reached(found, rest, CURVES[self.curve](relevant, self.confidence))

    def firsts(self, relevant: NDArray[np.bool_], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        if self.curve != "exponential":
            return super().firsts(relevant, offsets)
        sizes = np.diff(offsets)
        size, starts = np.repeat(sizes, sizes), np.repeat(offsets[:-1], sizes)
        judged = np.arange(1, len(relevant) + 1) - starts
        found, places = (
            (counted := np.concatenate([[0], np.cumsum(values)]))[1:] - counted[starts]
            for values in (np.asarray(relevant, np.int64), np.where(relevant, judged - 0.5, 0.0))
        )
        # The exact bound is costly, so it is computed only if a lower one allows to stop.
        lower = exponential_rest(judged, found, places, size, self.confidence, quick=True)
        largest = int(sizes.max(initial=0))  # a low target allows more than there are
        allowed = np.minimum(np.floor(found / self.recall - found + 1e-9), largest).astype(np.int64)
        most = _most_expected(largest, self.confidence)
        maybe = np.flatnonzero((found > 0) & ((lower <= most[allowed]) | (size - judged <= allowed)))
        firsts = sizes.copy()
        while len(maybe):
            starting, first = np.unique(starts[maybe], return_index=True)
            at = maybe[first]
            expected = exponential_rest(judged[at], found[at], places[at], size[at], self.confidence)
            held = self.reached(found[at], size[at] - judged[at], expected)
            firsts[np.searchsorted(offsets, starting[held], side="right") - 1] = judged[at[held]]
            maybe = np.delete(maybe, first)
            maybe = maybe[~np.isin(starts[maybe], starting[held])]
        return firsts

    def reached(
        self, found: NDArray[np.int64], rest: NDArray[np.int64], expected: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Return whether the target is reached, given relevant documents found, documents left, and relevant ones
        expected there.
        """
        allowed = np.floor(found / self.recall - found + 1e-9)  # 7 / .07 - 7 is below 93 in floats
        surely = pdtr(allowed, expected) >= self.confidence
        return (found > 0) & (surely | (rest <= allowed))


@lru_cache(maxsize=64)
def _most_expected(most: int, confidence: float) -> NDArray[np.float64]:
    """Return the largest expectation with which up to n documents are left at the confidence, for n up to `most`; a
    little more, so that it excludes nothing by rounding.
    """
    size = 1 << most.bit_length()  # few sizes, so that they are computed once
    return gammainccinv(np.arange(1.0, size + 1), confidence) * (1 + 1e-9)


class StableRanking(StoppingRule):
    """Stop all topics once the ranking of the runs no longer changes.

    The runs are ranked by MAP with the judgements so far, each time the budget has grown by `every` judgements per
    topic.

    Args:
        tau: Kendall's τ of two consecutive rankings that counts as no change.
        over: number of consecutive changes that must be that small.
        every: judgements per topic between two rankings.
    """

    @checked
    def __init__(
        self,
        tau: Annotated[float, Between(-1, 1)] = 0.98,
        over: Annotated[int, Positive] = 3,
        every: Annotated[int, Positive] = 25,
    ) -> None:
        self.tau, self.over, self.every = tau, over, every

    def __str__(self) -> str:
        return f"τ {self.tau:g} over {self.over} × {self.every}"

    def stops(self, pool: Pool, order: JudgingOrder) -> NDArray[np.int64]:
        evaluation, before = PoolEvaluation(pool), np.zeros((1, len(pool.runs)))
        stable, step = 0, 1
        while True:
            points = order.spent_at(range(self.every * step, self.every * (step + AT_ONCE), self.every))
            scores = np.concatenate([before, evaluation.spent(order, points).ap.mean(1)])
            # NaN, while nothing relevant is known and all runs are tied, does not count as stable.
            for spent, tau in zip(points, kendall_taus(scores[:-1], scores[1:]), strict=True):
                if (spent == order.sizes).all():
                    return order.sizes
                stable = stable + 1 if tau >= self.tau else 0
                if stable == self.over:
                    return np.asarray(spent)
            before, step = scores[-1:], step + AT_ONCE


def savings(quality: RankingQuality, order: JudgingOrder, rules: Sequence[StoppingRule], seed: int = 0) -> pl.DataFrame:
    """Compute what stopping by each rule saves and costs in a pool that is judged in an order.

    Returns:
        One row per rule: rule (its name), saved (share of the pool that is not judged), target (recall of the pool's
            relevant documents that topics are compared with: the rule's, or .9), reached (share of the topics with
            relevant documents that reach it), then the columns of `RankingQuality.at`.
    """
    pool = quality.pool
    applied = [rule.applied(pool, order, seed) for rule in rules]
    together = [spent for judged, spent in applied if judged is order]  # measured at the cost of one
    measured = iter(quality.at(order, np.array(together, np.int64)) if together else [])
    rows: list[Row] = []
    for rule, (judged, spent) in zip(rules, applied, strict=True):
        row: Row = {"rule": str(rule), "saved": 1 - float(spent.sum()) / max(pool.size, 1)}
        row |= {"target": rule.recall, "reached": _reached(pool, judged, spent, rule.recall)}
        rows.append(row | (next(measured) if judged is order else quality.at(judged, spent[None, :])[0]))
    return pl.DataFrame(rows, schema_overrides=RUNS)


def _reached(pool: Pool, order: JudgingOrder, spent: NDArray[np.int64], target: float) -> float:
    """Return the share of the topics with relevant documents in the pool that reach the target; NaN if none has any."""
    relevant = np.add.reduceat(pool.relevant.astype(np.int64), pool.offsets[:-1])
    held = order.found_after(pool.relevant, spent) >= target * relevant - 1e-9
    return float(np.mean(held[relevant > 0])) if relevant.any() else float("nan")
