"""Stops a topic with a certificate: a random sample of the rest shows that the target recall is reached."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import scipy  # its `stats` is imported when it is first used
from numpy.typing import NDArray

from pyrite.pooling.adjudicators.adjudicator import topic_rng
from pyrite.pooling.judging_order import JudgingOrder
from pyrite.pooling.knee import Knee
from pyrite.pooling.pool import Pool
from pyrite.pooling.stopping import StoppingRule, TopicRule
from pyrite.ranking.bounds import Between, Positive, checked


class CertifiedRecall(StoppingRule):
    """Leave the order once another rule would stop, judge the rest at random, and stop when a hypergeometric test
    rejects that the recall is below the target (Callaghan and Müller-Hansen 2020, "Statistical stopping criteria for
    automated screening in systematic reviews").

    The hypothesis to reject: the rest held enough relevant documents to put the recall below the target. If it did,
    finding as few as this in a sample of this size would have had a probability below 1 - confidence.

    The authors test after each document drawn, which rejects too often: repeated tests find a significant result sooner
    or later. Here the test is made when the sample has `first` documents, twice as many, and so on, the first with half
    of the allowed error, the next with a quarter, …; so the confidence holds over all of them.

    Args:
        recall: the target, above 0 and below 1.
        confidence: confidence of the certificate, above 0 and below 1.
        first: documents of the sample before the first test; the next tests are at twice as many, four times, ….
        after: the rule that ends the order and begins the sample; None is `pyrite.pooling.knee.Knee` with its defaults.
    """

    @checked
    def __init__(
        self,
        recall: Annotated[float, Between(0, 1, exclude="both")] = 0.9,
        confidence: Annotated[float, Between(0, 1, exclude="both")] = 0.95,
        first: Annotated[int, Positive] = 20,
        after: TopicRule | None = None,
    ) -> None:
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
        """Return the number of judgements after which the test is passed, all of them if it never is. The first `left`
        documents are in the order, the others at random.
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
    """Compute the probability that a sample finds no more than this one did if the recall is below the target.

    Args:
        before, found: relevant documents found before the sample, and in it.
        sampled, rest: documents in the sample, and in the rest that it was drawn from.
    """
    # The fewest relevant documents in the rest that put the recall below the target.
    fewest = int(np.floor((before + found) / recall - before + 1e-9)) + 1
    if fewest > rest:
        return 0.0
    return float(scipy.stats.hypergeom.cdf(found, rest, fewest, sampled))
