"""Decides when to stop judging, by what an assessor knows then, and measures what that saves and costs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import pdtr

from pooling.average_precision import Evaluation
from pooling.correlation import kendall_tau
from pooling.judging_order import JudgingOrder
from pooling.pool import Pool
from pooling.ranking_quality import RUNS, RankingQuality, Row
from pooling.yield_curves import YieldCurve, exponential, exponential_rest, power
from ranking.errors import BadInput

CURVES: dict[str, YieldCurve] = {"exponential": exponential, "power": power}
_AT_ONCE = 64  # judgements at which the target is tried


class StoppingRule(ABC):
    """Says when to stop. `str` of a rule names it in tables.

    Attributes:
        recall: the target that topics are held against, also of a rule that has none of its own.
    """

    recall: float = 0.9

    @abstractmethod
    def stops(self, pool: Pool, order: JudgingOrder) -> NDArray[np.int64]:
        """Judgements that each topic has had when judging stops: int64 [topics], all of its pool where it never does.

        A rule sees the grades of the documents judged so far, never those still to come.
        """

    def applied(self, pool: Pool, order: JudgingOrder, seed: int) -> tuple[JudgingOrder, NDArray[np.int64]]:
        """The order that is judged with this rule, and where it `stops`. A rule may change an order that it has left.

        Args:
            pool, order: as in `stops`.
            seed: of what is random in the rule.
        """
        return order, self.stops(pool, order)


class TopicRule(StoppingRule):
    """A rule that stops each topic by itself, wherever in the order its judgements stand."""

    @abstractmethod
    def holds(self, relevant: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """After which judgements one would stop, each by those up to it alone.

        Args:
            relevant: bool [documents of the topic's pool], in the order of judging.

        Returns:
            bool [documents].
        """

    def stops(self, pool: Pool, order: JudgingOrder) -> NDArray[np.int64]:
        topics = zip(pool.topics, order.documents, strict=True)
        return np.array([self.first(pool.is_relevant(topic)[documents]) for topic, documents in topics], np.int64)

    def first(self, relevant: NDArray[np.bool_]) -> int:
        """After how many judgements one would stop, all where one never would; `relevant` is as in `holds`."""
        held = self.holds(relevant)
        return int(held.argmax()) + 1 if held.any() else len(relevant)


class FoundNothing(TopicRule):
    """Stop a topic after so many judgements in a row that found nothing relevant.

    Args:
        in_a_row: how many.
    """

    def __init__(self, in_a_row: int = 50) -> None:
        if in_a_row < 1:
            raise BadInput(f"in_a_row is {in_a_row}", remedy="give 1 or more")
        self.in_a_row = in_a_row

    def __str__(self) -> str:
        return f"nothing in {self.in_a_row}"

    def holds(self, relevant: NDArray[np.bool_]) -> NDArray[np.bool_]:
        judgement = np.arange(1, len(relevant) + 1)
        last = np.maximum.accumulate(np.where(relevant, judgement, 0))
        return judgement - last >= self.in_a_row


class TargetRecall(TopicRule):
    """Stop a topic once the yield so far says that this share of its pool's relevant documents is found.

    A yield curve (`pooling.yield_curves`, with its sources) says how many relevant documents to expect in the rest, and
    the rest may hold no more than the target allows, at the confidence. This suits every order of judging: with a
    random one it goes on to the target's share of the pool, with a good one it stops early.

    The two curves differ in the tail, which nobody has seen yet. `power` expects a heavy one: it reaches the target and
    overshoots it by far. `exponential` stops much earlier, and too early on the topics whose tail is heavy. As the rule
    is tried after each judgement, the confidence is not the share of topics that reach the target.

    Args:
        recall: the target, above 0 and below 1.
        confidence: .5 or more and below 1.
        curve: how the yield falls.
    """

    def __init__(
        self, recall: float = 0.9, confidence: float = 0.95, curve: Literal["exponential", "power"] = "exponential"
    ) -> None:
        if not 0 < recall < 1:
            raise BadInput(f"recall is {recall}", remedy="give more than 0 and less than 1")
        if not 0.5 <= confidence < 1:
            raise BadInput(f"confidence is {confidence}", remedy="give .5 or more and less than 1")
        if curve not in CURVES:
            raise BadInput(f"there is no curve {curve!r}", remedy=f"choose one of {', '.join(CURVES)}")
        self.recall, self.confidence, self.curve = recall, confidence, curve

    def __str__(self) -> str:
        return f"recall {self.recall:g} at {self.confidence:g}, {self.curve}"

    def holds(self, relevant: NDArray[np.bool_]) -> NDArray[np.bool_]:
        found = np.cumsum(relevant, dtype=np.int64)
        rest = len(relevant) - np.arange(1, len(relevant) + 1)
        return self.reached(found, rest, CURVES[self.curve](relevant, self.confidence))

    def first(self, relevant: NDArray[np.bool_]) -> int:
        if self.curve != "exponential":
            return super().first(relevant)
        judged, found = np.arange(1, len(relevant) + 1), np.cumsum(relevant, dtype=np.int64)
        places = np.cumsum(np.where(relevant, judged - 0.5, 0.0))

        def reached(at: NDArray[np.int64], confidence: float | None) -> NDArray[np.int64]:
            sums = (judged[at], found[at], places[at])
            expected = exponential_rest(*sums, len(relevant), confidence)
            return at[self.reached(found[at], len(relevant) - judged[at], expected)]

        # What is asked to be sure expects more than the estimate does, which takes a fraction of the time: only where
        # that says yes can the first judgement be.
        hopeful = reached(np.arange(len(relevant)), None)
        for start in range(0, len(hopeful), _AT_ONCE):
            held = reached(hopeful[start : start + _AT_ONCE], self.confidence)
            if len(held):
                return int(held[0]) + 1
        return len(relevant)

    def reached(
        self, found: NDArray[np.int64], rest: NDArray[np.int64], expected: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Whether the target is reached: by relevant documents found, documents left, relevant ones expected there."""
        allowed = np.floor(found / self.recall - found + 1e-9)  # 7 / .07 - 7 is below 93 in floats
        surely = pdtr(allowed, expected) >= self.confidence
        return (found > 0) & (surely | (rest <= allowed))


class StableRanking(StoppingRule):
    """Stop all topics once the ranking of the runs no longer changes.

    The runs are ranked by MAP with the judgements so far, each time the budget has grown by `every` judgements a topic.

    Args:
        tau: Kendall's τ of two rankings in a row that counts as no change.
        over: changes in a row that must be that small.
        every: judgements a topic between two rankings.
    """

    def __init__(self, tau: float = 0.98, over: int = 3, every: int = 25) -> None:
        if not -1 <= tau <= 1:
            raise BadInput(f"tau is {tau}", remedy="give -1 to 1")
        if over < 1 or every < 1:
            raise BadInput(f"over is {over} and every {every}", remedy="give 1 or more")
        self.tau, self.over, self.every = tau, over, every

    def __str__(self) -> str:
        return f"τ {self.tau:g} over {self.over} × {self.every}"

    def stops(self, pool: Pool, order: JudgingOrder) -> NDArray[np.int64]:
        evaluation = Evaluation(pool)
        sizes = np.array([len(documents) for documents in order.documents], np.int64)
        before, stable, budget = None, 0, 0
        while stable < self.over:
            budget += self.every
            spent = order.spent(budget)
            if (spent == sizes).all():
                return sizes
            scores = evaluation(evaluation.states(order, spent)).ap.mean(0)
            # NaN, while nothing relevant is known and all runs are tied, is no stability.
            stable = stable + 1 if before is not None and kendall_tau(before, scores) >= self.tau else 0
            before = scores
        return spent


def savings(
    pool: Pool, order: JudgingOrder, rules: Sequence[StoppingRule], seed: int = 0, quality: RankingQuality | None = None
) -> pl.DataFrame:
    """What stopping by each rule saves and costs.

    Args:
        pool: with its judgements.
        order: in which they were made.
        rules: to compare.
        seed: of what is random in a rule.
        quality: of the pool, where it is at hand: it does not depend on the order.

    Returns:
        A row a rule: rule (its name), saved (share of the pool that is not judged), target (recall of the pool's
        relevant documents that topics are held against: the rule's, or .9), reached (share of the topics with relevant
        documents that reach it), then the columns of `RankingQuality.at`.
    """
    quality = quality or RankingQuality(pool)
    rows: list[Row] = []
    for rule in rules:
        judged, spent = rule.applied(pool, order, seed)
        row: Row = {"rule": str(rule), "saved": 1 - float(spent.sum()) / max(pool.size, 1)}
        row |= {"target": rule.recall, "reached": _reached(pool, judged, spent, rule.recall)}
        rows.append(row | quality.at(judged, spent))
    return pl.DataFrame(rows, schema_overrides=RUNS)


def _reached(pool: Pool, order: JudgingOrder, spent: NDArray[np.int64], target: float) -> float:
    """Share of the topics with relevant documents in their pools of which that much is found; NaN where none has."""
    held = []
    for topic, documents, count in zip(pool.topics, order.documents, spent, strict=True):
        relevant = pool.is_relevant(topic)
        if relevant.any():
            held.append(relevant[documents[:count]].sum() >= target * relevant.sum() - 1e-9)
    return float(np.mean(held)) if held else float("nan")
