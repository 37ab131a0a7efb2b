"""Estimates the values that all judgements would give from a sample of them: relevant documents, P and AP, with 95%
intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri, stdtrit

from pyrite.pooling.adjudicators.sampled import CERTAIN, Sample
from pyrite.pooling.pool import TopicPool

CONFIDENCE = 0.95
TAIL = (1 - CONFIDENCE) / 2
Z = float(ndtri((1 + CONFIDENCE) / 2))
CUTOFF = 10
"""Ranks that P counts."""


class JudgedTopic(NamedTuple):
    """A topic of which a sample was judged. Values of `relevant` (bool [documents]) for others are ignored."""

    pool: TopicPool
    sample: Sample
    relevant: NDArray[np.bool_]


class TopicEstimates(NamedTuple):
    """Estimates for one topic: Horvitz–Thompson estimates (1952), in which a judged document represents 1/π documents.

    Args:
        relevant, relevant_variance: relevant documents in the pool.
        low, high: 95% interval of these.
        ap, ap_variance: float64 [runs]. The sum of precisions at relevant documents is estimated as for statAP (Aslam
            and Pavlu 2007, "A practical sampling strategy for efficient retrieval evaluation"), over pairs of judged
            documents by the probability of both, and divided by the estimate of the relevant documents: a ratio, which
            is unbiased only in large samples.
        precision, precision_variance: float64 [runs], of the first `CUTOFF` ranks.
    """

    relevant: float
    relevant_variance: float
    low: float
    high: float
    ap: NDArray[np.float64]
    ap_variance: NDArray[np.float64]
    precision: NDArray[np.float64]
    precision_variance: NDArray[np.float64]


def estimate(topic: JudgedTopic) -> TopicEstimates:
    """Estimate a topic from its judged documents.

    Variances and the probabilities of pairs are Hájek's (1964, "Asymptotic theory of rejective sampling") within each
    stratum, which follow from those of single documents; for a uniform sample without replacement they are the usual
    ones. AP's are by the jackknife (`jackknife_variance`), and its bias, that of its linear part (Deville 1999,
    "Variance estimation for complex statistics and estimators"), is subtracted to the first order. If each draw
    depended on the former ones, variances are of the draws' estimates, which are uncorrelated (Raj 1956, "Some
    estimators in sampling with varying probabilities without replacement").
    """
    pool, sample, relevant = topic
    known = (relevant & (sample.weights > 0)).astype(np.float64)
    counted = known * sample.weights
    total = float(counted.sum())
    design = design_of(pool, sample)
    variance = max(sampling_covariance(design, known, known), 0.0)
    runs = len(pool.ranking)
    ap, ap_variance, precision, precision_variance = (np.zeros(runs) for _ in range(4))
    _runs(
        pool.ranking, sample.strata, design, known, counted, total, CUTOFF,
        ap, ap_variance, precision, precision_variance,
    )  # fmt: skip
    low, high = relevant_interval([topic], total, variance)
    return TopicEstimates(total, variance, low, high, ap, ap_variance, precision, precision_variance)


def design_of(pool: TopicPool, sample: Sample) -> Design:
    """Return how a sample was drawn, for `sampling_covariance`."""
    weights, judged = sample.weights, sample.weights > 0
    strata = int(sample.strata.max(initial=CERTAIN)) + 1
    drawn = np.flatnonzero(sample.strata != CERTAIN)
    own, rest = sample.strata[drawn].astype(np.int64), np.maximum(1.0 - 1.0 / weights[drawn], 0.0)
    sizes = np.bincount(own, minlength=strata).astype(np.float64)
    certain = int((judged & (sample.strata == CERTAIN)).sum())
    spread = np.bincount(own, rest, minlength=strata).astype(np.float64)
    return Design(drawn, own, rest, sizes, spread, weights, sample.drawn, sample.chances, pool.size - certain)


def relevant_interval(topics: Sequence[JudgedTopic], estimate: float, variance: float) -> tuple[float, float]:
    """Return the 95% interval of the relevant documents of some topics together, given the estimate and its variance.

    That of Korn and Graubard (1998, "Confidence intervals for proportions with small expected number of positive
    counts"): Clopper and Pearson's for as many draws as would have this variance, fewer if strata are many. So it does
    not vanish if the sample found nothing, and is never below what was found nor above what is left. For a single topic
    with draws that depended on the former ones there are at most as many as the weights are worth (Kish).
    """
    found = certain = rest = left = 0.0
    strata = 0
    weights: list[NDArray[np.float64]] = []
    for _, sample, known in topics:
        judged, drawn = sample.weights > 0, sample.strata != CERTAIN
        found += float((known & judged).sum())
        certain += float((known & judged & ~drawn).sum())
        rest += float(len(judged) - (judged & ~drawn).sum())
        left += float((~judged).sum())
        weights.append(sample.weights[drawn])
        strata += len(np.unique(sample.strata[drawn]))
    every = np.concatenate(weights)
    if not left or not rest:
        return found, found
    if not len(every):
        return found, found + left
    share = float(np.clip((estimate - certain) / rest, 0.0, 1.0))
    kish = every.sum() ** 2 / (every**2).sum() / max(1.0 - len(every) / rest, 1e-9)
    draws = share * (1 - share) * rest**2 / variance if variance > 0 and 0 < share < 1 else kish
    if len(topics) == 1 and len(topics[0].sample.drawn):  # a topic's few draws hardly determine their variance
        draws = min(draws, kish)
    free = max(len(every) - strata, 1)
    # Quantiles as in scipy.stats' t and beta, which spend far more time on checks and broadcasting.
    draws *= float(stdtrit(max(len(every) - 1, 1), 1 - TAIL) / stdtrit(free, 1 - TAIL)) ** 2
    low, high = share_interval(share * draws, draws)
    return max(certain + low * rest, found), min(certain + high * rest, found + left)


def share_interval(hits: float, draws: float) -> tuple[float, float]:
    """Return Clopper and Pearson's 95% interval of a share that a number of draws, maybe no whole one, estimates."""
    low = float(betaincinv(hits, draws - hits + 1, TAIL)) if hits > 0 else 0.0
    high = float(betaincinv(hits + 1, draws - hits, 1 - TAIL)) if hits < draws else 1.0
    return low, high


class Design(NamedTuple):
    """How documents were drawn, for compiled functions.

    Args:
        drawn: int64 [documents drawn].
        own: int64, the stratum of each.
        rest: float64, 1 - π of each.
        sizes, spread: float64 [strata], documents drawn of each, and the sum of their `rest`.
        weights: float64 [documents].
        order, chances: a `Sample`'s draws if they depended on former ones.
        size: number of documents that these drew from.
    """

    drawn: NDArray[np.int64]
    own: NDArray[np.int64]
    rest: NDArray[np.float64]
    sizes: NDArray[np.float64]
    spread: NDArray[np.float64]
    weights: NDArray[np.float64]
    order: NDArray[np.int32]
    chances: NDArray[np.float64]
    size: int


@njit(nogil=True, cache=True)
def sampling_covariance(design, one, other):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Compute the covariance of the estimates Σ weight · one and Σ weight · other."""
    if len(design.order):
        return _covariance_of_draws(design, one, other)
    strata = len(design.sizes)
    of_one, of_other, of_both = np.zeros(strata), np.zeros(strata), np.zeros(strata)
    for place in range(len(design.drawn)):
        document, stratum = design.drawn[place], design.own[place]
        first, second = design.weights[document] * one[document], design.weights[document] * other[document]
        of_one[stratum] += design.rest[place] * first
        of_other[stratum] += design.rest[place] * second
        of_both[stratum] += design.rest[place] * first * second
    total = 0.0
    for stratum in range(strata):
        if design.spread[stratum] > 0:
            size = design.sizes[stratum]
            ratio = size / (size - 1) if size > 1 else 1.0
            total += ratio * (of_both[stratum] - of_one[stratum] * of_other[stratum] / design.spread[stratum])
    return total


@njit(nogil=True, cache=True)
def _covariance_of_draws(design, one, other):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The documents found before a draw, and the draw's estimate of the rest, together estimate the sum; each draw's
    estimate differs from it independently of the others'. Their weighted mean is what the weights of LURE amount to.
    """
    draws, size = len(design.order), design.size
    ends = np.zeros(2)
    for document in design.order:
        ends[0] += design.weights[document] * one[document]
        ends[1] += design.weights[document] * other[document]
    total, squares, before, before_other = 0.0, 0.0, 0.0, 0.0
    for draw in range(draws):
        document, left = design.order[draw], size - draw
        share = size * (size - draws) / (draws * (left - 1.0) * left)
        of_one = before + one[document] / design.chances[draw] - ends[0]
        of_other = before_other + other[document] / design.chances[draw] - ends[1]
        total += share * share * of_one * of_other
        squares += share * share
        before += one[document]
        before_other += other[document]
    return total / (1.0 - squares) if squares < 1 else total


@njit(nogil=True, cache=True)
def _runs(  # type: ignore[no-untyped-def]  # pragma: no cover
    ranking, strata, design, relevant, counted, total, cutoff, ap, ap_variance, precision, precision_variance
):
    """Estimate AP and P of each run with their variances."""
    left = np.zeros(len(counted))  # 1 - π of the drawn documents
    left[design.drawn] = design.rest
    influence = np.zeros(len(counted))
    held, places = np.empty(ranking.shape[1], np.int64), np.empty(ranking.shape[1], np.int64)
    for run in range(ranking.shape[0]):
        count, added = 0, 0.0
        influence[:] = 0.0
        for place in range(ranking.shape[1]):
            document = ranking[run, place]
            if document >= 0 and counted[document] > 0:
                held[count], places[count] = document, place
                count += 1
        for below in range(count):
            document, rank = held[below], places[below] + 1
            added += counted[document] / rank
            influence[document] += 1.0 / rank
            for above in range(below):
                other = held[above]
                # Both are in a sample of fixed size less often than the product of their probabilities.
                together = 1.0
                if strata[document] >= 0 and strata[document] == strata[other] and left[document] > 0:
                    together -= left[document] * left[other] / design.spread[strata[document]]
                at = 1.0 / (rank * together)
                added += counted[document] * counted[other] * at
                influence[document] += counted[other] * at
                influence[other] += counted[document] * at
        ap[run] = added / total if total > 0 else 0.0
        for document in range(len(counted)):  # a relevant document that the run lacks reduces its AP
            influence[document] = (influence[document] - ap[run]) / total if counted[document] > 0 else 0.0
        if total > 0:
            ap_variance[run] = jackknife_variance(
                held[:count], places[:count], counted, strata, left, design.spread, design.sizes, design.drawn,
                relevant, total,
            )  # fmt: skip
            # The bias of a ratio, to the first order.
            ap[run] += sampling_covariance(design, influence, relevant) / total
        ap[run] = min(max(ap[run], 0.0), 1.0)
        influence[:] = 0.0
        for place in range(count):
            if places[place] < cutoff:
                precision[run] += counted[held[place]] / cutoff
                influence[held[place]] = 1.0 / cutoff
        precision_variance[run] = max(sampling_covariance(design, influence, influence), 0.0)


@njit(nogil=True, cache=True)
def jackknife_variance(  # type: ignore[no-untyped-def]  # pragma: no cover
    held, places, weights, strata, left, spread, sizes, drawn, relevant, total
):
    """Compute the variance of one run's AP: each drawn document is left out in turn, the others of its stratum replace
    it.

    For a statistic that is not a sum the jackknife is too large rather than too small (Efron and Stein 1981, "The
    jackknife estimate of variance"); a linear approximation leaves out the joint effect of pairs of documents, and is
    too small. Each term counts by 1 - π, as a document that was certain to be drawn adds nothing. A stratum with one
    document drawn counts as if without it nothing represented the stratum.

    Args:
        held: int64 [documents], relevant judged ones of the run, best first.
        places: int64, their ranks from 0.
        weights: float64 [documents of the pool], those of relevant judged ones, 0 for all others.
        strata: int32 [documents of the pool].
        left: float64 [documents of the pool], 1 - π of those drawn.
        spread, sizes: float64 [strata], see `Design`.
        drawn: int64 [draws], documents.
        relevant: float64 [documents of the pool], 1 or 0 for judged ones.
        total: the estimate of the relevant documents, above 0.
    """
    count, groups = len(held), len(sizes)
    everything, of_each, of_strata = _contributions(held, places, weights, strata, left, spread)
    base = everything / total
    of_stratum, rest, hits = np.zeros(groups), np.zeros(groups), np.zeros(groups)
    for document in drawn:
        of_stratum[strata[document]] += weights[document]
        rest[strata[document]] += left[document]
        hits[strata[document]] += relevant[document]
    place_of = np.full(len(weights), -1, np.int64)
    for place in range(count):
        place_of[held[place]] = place
    variance = 0.0
    for stratum in range(groups):
        size = sizes[stratum]
        if size < 1:
            continue
        more = size / (size - 1) if size > 1 else 0.0
        # Without one that is not relevant; without each relevant one.
        fixed = everything - of_strata[0, stratum] - of_strata[1, stratum] - of_strata[2, stratum]
        scaled = _scaled(of_strata, stratum, more)
        without = total - of_stratum[stratum] + more * of_stratum[stratum]
        plain = (fixed + scaled) / without if without > 1e-12 else base
        mean = plain * (size - hits[stratum]) / size
        values = np.zeros(int(hits[stratum]) + 1)
        weighs = np.zeros(int(hits[stratum]) + 1)
        found = 0
        for document in drawn:
            if strata[document] != stratum or relevant[document] == 0:
                continue
            place = place_of[document]
            lost = _scaled(of_each, place, more) if place >= 0 else 0.0
            relevant_left = without - more * weights[document]
            value = (fixed + scaled - lost) / relevant_left if relevant_left > 1e-12 else base
            values[found], weighs[found] = value, left[document]
            mean += value / size
            rest[stratum] -= left[document]
            found += 1
        centre = mean if size > 1 else base
        factor = (size - 1) / size if size > 1 else 1.0
        variance += factor * max(rest[stratum], 0.0) * (plain - centre) ** 2
        for number in range(found):
            variance += factor * weighs[number] * (values[number] - centre) ** 2
    return variance


@njit(nogil=True, cache=True)
def _scaled(parts, place, more):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Compute what a document or a stratum adds if each weight in its stratum is `more` times as large."""
    return more * (parts[0, place] + parts[2, place]) + more * more * parts[1, place]


@njit(nogil=True, cache=True)
def _contributions(held, places, weights, strata, left, spread):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Compute what relevant documents add to a run's sum of precisions; see `jackknife_variance`.

    Returns:
        The sum, and the parts of each document, float64 [3, documents], and of each stratum, float64 [3, strata]:
        alone, with others of its stratum, and with all others.
    """
    of_each, of_strata = np.zeros((3, len(held))), np.zeros((3, len(spread)))
    alone, inside, outside = of_each[0], of_each[1], of_each[2]
    sum_alone, sum_inside, sum_outside = of_strata[0], of_strata[1], of_strata[2]
    everything = 0.0
    for below in range(len(held)):
        document, rank = held[below], places[below] + 1
        stratum = strata[document]
        alone[below] = weights[document] / rank
        everything += alone[below]
        if stratum >= 0:
            sum_alone[stratum] += alone[below]
        for above in range(below):
            other = held[above]
            together, same = 1.0, stratum >= 0 and stratum == strata[other]
            if same and left[document] > 0:
                together -= left[document] * left[other] / spread[stratum]
            pair = weights[document] * weights[other] / (rank * together)
            everything += pair
            if same:
                inside[below] += pair
                inside[above] += pair
                sum_inside[stratum] += pair
            else:
                outside[below] += pair
                outside[above] += pair
                if stratum >= 0:
                    sum_outside[stratum] += pair
                if strata[other] >= 0:
                    sum_outside[strata[other]] += pair
    return everything, of_each, of_strata
