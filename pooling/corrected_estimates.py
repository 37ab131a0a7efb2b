"""Estimates relevant documents from a machine's grades, corrected by people's judgements, and how far they agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyrite.pooling.estimates import JudgedTopic, design_of, sampling_covariance
from pyrite.pooling.judging.agreement import weighted_kappa
from pyrite.pooling.pool import TopicPool
from pyrite.pooling.sentinels import NO_GRADE


class Corrected(NamedTuple):
    """The estimate for one topic.

    Args:
        relevant, variance: relevant documents in the pool, and the variance of the estimate.
        trust: λ, from 0 (the machine is ignored) to 1 (its count is taken completely, and its errors are added).
        machine: relevant documents by the machine alone.
    """

    relevant: float
    variance: float
    trust: float
    machine: float


def corrected(topic: JudgedTopic, relevant_from: int, trust: float) -> Corrected:
    """Estimate relevant documents by prediction-powered inference (Angelopoulos et al. 2023, "Prediction-powered
    inference").

    The estimate is λ · Σ f over the pool, f the machine's verdict, plus the Horvitz–Thompson estimate of Σ (y - λ·f)
    from what people judged: for a fixed λ unbiased for any machine, and the closer the better the machine is.

    The variance is that of y - λ·f among those judged, as if one more of them had been judged differently from the
    machine's verdict: a few judgements without an error do not show that it makes none. `trust` is λ (`trusts_in`).
    """
    pool, sample, relevant = topic
    machine = verdicts(pool, relevant_from)
    judged = sample.weights > 0
    rest = np.where(judged, relevant - trust * machine, 0.0)
    design = design_of(pool, sample)
    drawn = judged & (sample.weights > 1)
    one_more = float((sample.weights * (sample.weights - 1))[drawn].mean()) if drawn.any() else 0.0
    variance = max(sampling_covariance(design, rest, rest), 0.0) + trust * one_more
    return Corrected(
        float(trust * machine.sum() + (sample.weights * rest).sum()), variance, trust, float(machine.sum())
    )


def trusts_in(topics: Sequence[JudgedTopic], relevant_from: int) -> list[float]:
    """Return for each topic the λ with which the estimates over all other topics vary least, from 0 to 1.

    That is the covariance of verdicts and judgements divided by the variance of verdicts, under the design
    (Angelopoulos, Duchi and Zrnic 2023, "PPI++: efficient prediction-powered inference"). A topic's λ is estimated
    without its judgements (cross-fitting): estimated with them, it would follow their chance, and bias the estimate.
    """
    shared, of_verdicts = np.zeros(len(topics)), np.zeros(len(topics))
    for number, (pool, sample, known) in enumerate(topics):
        design, judged = design_of(pool, sample), sample.weights > 0
        machine = np.where(judged, verdicts(pool, relevant_from), 0.0)
        shared[number] = sampling_covariance(design, np.where(judged, known, False).astype(np.float64), machine)
        of_verdicts[number] = sampling_covariance(design, machine, machine)
    others, of_others = shared.sum() - shared, of_verdicts.sum() - of_verdicts
    usable = of_others > 1e-9 * max(float(np.abs(of_verdicts).max(initial=0.0)), 1e-300)
    return np.where(usable, np.clip(others / np.where(usable, of_others, 1.0), 0.0, 1.0), 0.0).tolist()


def verdicts(pool: TopicPool, relevant_from: int) -> NDArray[np.float64]:
    """Return the machine's verdict on each document: float64 [documents], 1 if relevant, otherwise or without a grade
    0.
    """
    return ((pool.machine != NO_GRADE) & (pool.machine >= relevant_from)).astype(np.float64)


def sampled_kappa(topics: Sequence[JudgedTopic], relevant_from: int) -> float | None:
    """Compute Cohen's κ of relevance by people and by a machine, over the whole pool: a judged document counts for all
    documents that it represents.

    An order that looks for relevant documents meets those that the machine, too, finds relevant: κ of these alone means
    little. So the κ is that of a sample (`pyrite.pooling.adjudicators.sampled.Sampled`), by its weights. None if there
    are no documents that both judged, or if both gave one verdict to all.
    """
    people, machine, weights = [], [], []
    for pool, sample, known in topics:
        both = (sample.weights > 0) & (pool.machine != NO_GRADE)
        people.append(known[both])
        machine.append(pool.machine[both] >= relevant_from)
        weights.append(sample.weights[both])
    if not weights:
        return None
    return weighted_kappa(*map(np.concatenate, (people, machine, weights)))
