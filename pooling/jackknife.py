"""Computes how far an estimate of average precision would move without each of the documents that were drawn."""

from __future__ import annotations

import numpy as np
from numba import njit


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
        spread, sizes: float64 [strata], see `pooling.estimates.Design`.
        drawn: int64 [draws], documents.
        relevant: float64 [documents of the pool], 1 or 0 for judged ones.
        total: the estimate of the relevant documents, above 0.
    """
    count, groups = len(held), len(sizes)
    # The contribution of each to the sum of precisions: alone, with others of its stratum, and with all others.
    alone, inside, outside = np.zeros(count), np.zeros(count), np.zeros(count)
    sum_alone, sum_inside, sum_outside = np.zeros(groups), np.zeros(groups), np.zeros(groups)
    everything = 0.0
    for below in range(count):
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
        fixed = everything - sum_alone[stratum] - sum_inside[stratum] - sum_outside[stratum]
        scaled = more * (sum_alone[stratum] + sum_outside[stratum]) + more * more * sum_inside[stratum]
        without = total - of_stratum[stratum] + more * of_stratum[stratum]
        plain = (fixed + scaled) / without if without > 1e-12 else base
        mean = plain * (size - hits[stratum]) / size
        values = np.zeros(int(hits[stratum]) + 1)
        weighs = np.zeros(int(hits[stratum]) + 1)
        found = 0
        for document in drawn:
            if strata[document] != stratum or relevant[document] == 0:
                continue
            place, lost = place_of[document], 0.0
            if place >= 0:
                lost = more * (alone[place] + outside[place]) + more * more * inside[place]
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
