"""Estimates a measure's mean over topics from the topics' estimates, with its 95% interval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pyrite.pooling.estimates import CUTOFF, JudgedTopic, TopicEstimates, Z

MeanEstimate = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Estimates for each run: float64 [runs], the mean and half its interval."""


def mean_precision(estimates: Sequence[TopicEstimates], topics: Sequence[JudgedTopic]) -> MeanEstimate:
    """Estimate mean P: a sum, so topics' estimates and variances add up.

    If an order leaves only one stratum (a uniform sample of the rest), few of its documents are in a run's first ranks,
    and a run none of whose documents was found relevant would have no variance at all: then the share of relevant
    documents among those drawn from any run's first ranks estimates what to expect there.
    """
    variance = np.sum([estimate.precision_variance for estimate in estimates], axis=0) + _unseen_in_front(topics)
    return np.mean([estimate.precision for estimate in estimates], axis=0), Z * np.sqrt(variance) / len(estimates)


def _unseen_in_front(topics: Sequence[JudgedTopic]) -> NDArray[np.float64]:
    """Compute the variance of the sum over topics of P from documents that were not drawn: float64 [runs]."""
    hidden = np.zeros((len(topics), len(topics[0].pool.ranking)))
    drawn = found = 0
    for topic, (pool, sample, known) in enumerate(topics):
        own = sample.strata >= 0
        if not own.any() or sample.strata.max() > 0 or len(sample.drawn):
            continue
        front = pool.ranking[:, :CUTOFF]
        held = front >= 0
        in_front = np.unique(front[held])
        drawn += int(own[in_front].sum())
        found += int((own & known)[in_front].sum())
        blind = ~((own & known)[front] & held).any(axis=1)
        open_ones = ((sample.weights == 0)[front] & held).sum(axis=1)
        hidden[topic] = blind * open_ones * max(float(sample.weights[own].mean()) - 1, 0.0)
    expected = (found + 0.5) / (drawn + 1)
    summed: NDArray[np.float64] = hidden.sum(0) * expected / CUTOFF**2
    return summed


def mean_average_precision(estimates: Sequence[TopicEstimates], topics: Sequence[JudgedTopic]) -> MeanEstimate:
    """Estimate MAP. Its variance has three parts, of which the sum of the topics' variances would have one:

    - the draws, by the jackknife (`pyrite.pooling.estimates.jackknife_variance`);
    - relevant documents in a stratum in which a topic's sample found none: the topic alone would estimate zero
      (variance 0), so the other topics estimate how many to expect there for each relevant document of a topic, plus
      half a find. One of them, of weight w, would reduce an AP by w / (relevant + w) of it;
    - topics in which nothing relevant was found at all: their AP is unknown. It is not 0, nor is it the mean of the
      others, since nothing is found in topics whose runs have nothing relevant at the top; so it counts as half that
      mean, and the interval reaches from 0 to the whole.
    """
    known = [estimate for estimate in estimates if estimate.relevant > 0]
    if not known:
        return np.zeros_like(estimates[0].ap), np.ones_like(estimates[0].ap)
    values = np.array([estimate.ap for estimate in known])
    extra = [
        share * estimate.ap**2
        for estimate, share in zip(estimates, _unseen(estimates, topics), strict=True)
        if estimate.relevant > 0
    ]
    variance = (np.sum([estimate.ap_variance for estimate in known], axis=0) + np.sum(extra, axis=0)) / len(known) ** 2
    missing = (len(topics) - len(known)) / len(topics)
    mean = values.mean(axis=0)
    return mean * (1 - missing / 2), Z * np.sqrt(variance) * (1 - missing / 2) + mean * missing / 2


def _unseen(estimates: Sequence[TopicEstimates], topics: Sequence[JudgedTopic]) -> NDArray[np.float64]:
    """Compute for each topic the variance, as a share of its squared AP, due to strata without a find: float64
    [topics].
    """
    strata = 1 + max((int(topic.sample.strata.max(initial=-1)) for topic in topics), default=-1)
    drawn, found, stands_for = (np.zeros((len(topics), strata)) for _ in range(3))
    for topic, (_, sample, known) in enumerate(topics):
        own = sample.strata >= 0
        place, weights = sample.strata[own], sample.weights[own]
        drawn[topic] = np.bincount(place, minlength=strata)
        found[topic] = np.bincount(place, known[own] * weights, minlength=strata)
        stands_for[topic] = np.bincount(place, weights, minlength=strata)
    total = np.array([estimate.relevant for estimate in estimates])
    mean_weight = stands_for.sum(0) / np.maximum(drawn.sum(0), 1)
    expected = (found.sum(0) + mean_weight / 2) / max(total.sum(), 1.0)  # for each relevant document of a topic
    weight = np.where(drawn > 0, stands_for / np.maximum(drawn, 1), 0.0)
    blind = (drawn > 0) & (found == 0)
    together = total[:, None] + weight
    moved = np.divide(total[:, None], together**2, out=np.zeros_like(weight), where=together > 0)
    share: NDArray[np.float64] = (blind * np.maximum(weight - 1, 0) * expected * moved).sum(1)
    return share
