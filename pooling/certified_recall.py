"""Stops a topic with a certificate: a random sample of what is left says that the target recall is reached."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import hypergeom

from pooling.adjudicators.adjudicator import topic_rng
from pooling.judging_order import JudgingOrder
from pooling.knee import Knee
from pooling.pool import Pool
from pooling.stopping import StoppingRule, TopicRule
from ranking.errors import BadInput


class CertifiedRecall(StoppingRule):
    """Leave the order once another rule would stop, judge the rest at random, and stop when a hypergeometric test says
    that the recall is not below the target (Callaghan and Müller-Hansen 2020, "Statistical stopping criteria for
    automated screening in systematic reviews").

    The hypothesis to reject: the rest held so many relevant documents that what is found is less than the target.
    With them, finding as few as this in a sample of this size would have had a probability below 1 - confidence.

    The authors test after each document drawn, which rejects too often: whoever looks often enough will see it once.
    Here the test is made when the sample has `first` documents, twice as many, and so on, the first with half of the
    error that is allowed, the next with a quarter, …; so the confidence holds over all of them.

    Args:
        recall: the target, above 0 and below 1.
        confidence: above 0 and below 1.
        first: documents of the sample before the first test.
        after: the rule that ends the order and begins the sample; None takes `Knee()`.

    Raises:
        BadInput: where an option is out of range.
    """

    def __init__(
        self, recall: float = 0.9, confidence: float = 0.95, first: int = 20, after: TopicRule | None = None
    ) -> None:
        if not 0 < recall < 1 or not 0 < confidence < 1 or first < 1:
            raise BadInput(
                f"recall is {recall}, confidence {confidence} and first {first}",
                remedy="give recall and confidence between 0 and 1, first from 1",
            )
        self.recall, self.confidence, self.first = recall, confidence, first
        self.after = after or Knee()

    def __str__(self) -> str:
        return f"certified {self.recall:g} at {self.confidence:g} after {self.after}"

    def stops(self, pool: Pool, order: JudgingOrder) -> NDArray[np.int64]:
        return self.applied(pool, order, 0)[1]

    def applied(self, pool: Pool, order: JudgingOrder, seed: int) -> tuple[JudgingOrder, NDArray[np.int64]]:
        documents, spent = [], []
        for topic, judged in zip(pool.topics, order.documents, strict=True):
            relevant = pool.is_relevant(topic)
            left = self.after.first(relevant[judged])
            own = np.concatenate([judged[:left], topic_rng(seed, topic.name).permutation(judged[left:])])
            documents.append(own.astype(np.int32))
            spent.append(self.sampled(relevant[own], left))
        return JudgingOrder(documents, None), np.array(spent, np.int64)

    def sampled(self, relevant: NDArray[np.bool_], left: int) -> int:
        """After how many judgements the test is passed, all where it never is.

        Args:
            relevant: bool [documents], first by the order, then at random.
            left: how many of them are of the order.
        """
        before, rest = int(relevant[:left].sum()), len(relevant) - left
        size, error = self.first, (1 - self.confidence) / 2
        while size < rest:
            found = int(relevant[left : left + size].sum())
            if p_value(before, found, size, rest, self.recall) < error:
                return left + size
            size, error = 2 * size, error / 2
        return len(relevant)


def p_value(before: int, found: int, sampled: int, rest: int, recall: float) -> float:
    """How likely a sample would be to find no more than it did, were the recall below the target.

    Args:
        before: relevant documents found before the sample.
        found: in the sample.
        sampled, rest: documents in the sample, and in what it was drawn from.
        recall: the target.
    """
    # The fewest relevant documents in the rest with which what is known is less than the target.
    fewest = int(np.floor((before + found) / recall - before + 1e-9)) + 1
    if fewest > rest:
        return 0.0
    return float(hypergeom.cdf(found, rest, fewest, sampled))
