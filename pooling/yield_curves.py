"""Estimates how many relevant documents the rest of a pool holds, by how fast judging has found them so far.

Relevant documents are modelled as events of a Poisson process along the order of judging, whose rate falls by a law
with one parameter for its speed. The law fitted to the judged part estimates the number of events in the rest. Counting
processes are a standard way to stop technology-assisted reviews, and need no judgements in addition to those of the
order (Sneyd and Stevenson 2019, "Modelling stopping criteria for search results using Poisson processes"; Stevenson and
Bin-Hezam 2023, "Stopping methods for technology assisted reviews based on point processes").

They fit a curve to counts in windows by least squares. Here the fit is by maximum likelihood, which has a closed form:
given their number, the events are independent draws from one distribution over the judged part, and their mean is
sufficient for its parameter. It also yields a confidence, which matters while few are found.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.special import gammaincinv

YieldCurve = Callable[[NDArray[np.bool_], float], NDArray[np.float64]]
"""Takes the judgements, bool [documents of the pool] in the order of judging (relevant or not), and a confidence from
.5 to 1. Returns float64 [documents]: after each judgement, from those up to it only, the number of relevant
documents to expect among the rest, if the rate falls as slowly as the confidence allows (at .5 about as estimated)
but does not rise; 0 before anything relevant is found.
"""


def exponential(relevant: NDArray[np.bool_], confidence: float) -> NDArray[np.float64]:
    """The rate falls by the same share with each judgement (Goel and Okumoto 1979, for faults found in software)."""
    judged = np.arange(1, len(relevant) + 1)
    places = np.cumsum(np.where(relevant, judged - 0.5, 0.0))
    return exponential_rest(judged, np.cumsum(relevant), places, len(relevant), confidence)


def exponential_rest(
    judged: NDArray[np.int64],
    found: NDArray[np.int64],
    places: NDArray[np.float64],
    size: int | NDArray[np.int64],
    confidence: float,
) -> NDArray[np.float64]:
    """Compute `exponential` from sums, without reading all judgements again.

    Args:
        judged, found: judgements so far, and relevant documents among them.
        places: sum of the relevant documents' positions in the order of judging; a judgement's position is its middle,
            ½ for the first.
        size: documents of the pool, of one topic or of each judgement's.
        confidence: confidence of the bound (see `YieldCurve`).
    """
    events = np.maximum(found, 1)
    # Mean position of the relevant documents as a share of the judged part.
    mean = np.where(found > 0, places / events / judged, 0.5)
    # The mean of that many draws is nearly gamma distributed; exactly if nothing is cut off.
    shape = events * mean**2 / _variance(_decay(mean))
    decay = _decay(mean * shape / gammaincinv(shape, 1 - confidence))
    # The rate's integral over the rest by that over the judged part: e^-z (1 - e^(-z rest/judged)) / (1 - e^-z).
    left = size / judged - 1
    steady = decay == 0
    z = np.where(steady, 1.0, decay)
    ratio: NDArray[np.float64] = np.where(steady, left, np.exp(-z) * np.expm1(-z * left) / np.expm1(-z))
    return found * ratio


def power(relevant: NDArray[np.bool_], confidence: float) -> NDArray[np.float64]:
    """The rate falls by the same share each time the judgements double (Crow 1974, for failures of repaired systems).

    Its tail is heavy: even after a long stretch without any it expects some more in a large rest.
    """
    judged, found = np.arange(1, len(relevant) + 1), np.cumsum(relevant)
    events = np.maximum(found, 1)
    # Logarithms of judged/place are exponentially distributed: their sum is gamma distributed.
    logs = events * np.log(judged) - np.cumsum(relevant * np.log(judged - 0.5))
    quantiles = gammaincinv(np.arange(1, int(events.max(initial=1)) + 1), confidence)
    exponent = np.minimum(quantiles[events - 1] / np.maximum(logs, np.log(2)), 1.0)
    return found * np.expm1(exponent * np.log(len(relevant) / judged))


_DECAYS = np.geomspace(1e-3, 1e5, 10_001)
_MEANS = 1 / _DECAYS - 1 / np.expm1(np.minimum(_DECAYS, 700))
"""Mean of an exponential distribution, cut off at 1, for each of these rates; they are less than .2% apart."""
_RISING_MEANS, _FALLING_DECAYS = _MEANS[::-1].copy(), _DECAYS[::-1].copy()


def _decay(mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rate for which such a distribution has the mean; 0 for a mean of a half or more."""
    return np.where(mean >= _MEANS[0], 0.0, np.interp(mean, _RISING_MEANS, _FALLING_DECAYS))


def _variance(decay: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the variance of such a distribution; for the rate 0 a uniform one's, 1/12, which is near from .01 down."""
    z = np.maximum(decay, 1e-2)
    return 1 / z**2 - 1 / (4 * np.sinh(np.minimum(z, 700) / 2) ** 2)


class ExponentialWalk:
    """Walks through the judgements of many topics, to those after which `exponential` may allow to reach a recall.

    It skips those after which a lower bound of `exponential_rest` does not. The bound takes the gamma quantile from a
    table: at a confidence of .5 or more, quantile / shape rises with the shape (Gamma distributions are star-ordered),
    so the next larger shape of the table never expects more.

    Args:
        relevant: bool [documents of all topics], each topic's in the order of judging.
        offsets: int64 [topics + 1], where the topics begin.
        recall: the target.
        confidence: see `YieldCurve`.
        most_expected: the largest expectation that allows n documents to be left, for each n.

    Attributes:
        judged, found, places: where each topic is, see `exponential_rest`: [topics] each.
    """

    def __init__(
        self,
        relevant: NDArray[np.bool_],
        offsets: NDArray[np.int64],
        recall: float,
        confidence: float,
        most_expected: NDArray[np.float64],
    ) -> None:
        topics = len(offsets) - 1
        self.judged, self.found = np.zeros(topics, np.int64), np.zeros(topics, np.int64)
        self.places = np.zeros(topics)
        self._fixed = (relevant, offsets, recall, most_expected, _RISING_MEANS, _FALLING_DECAYS, *_factors(confidence))

    def advance(self, topics: NDArray[np.int64]) -> NDArray[np.int64]:
        """Move topics, given by number, to the next such judgement, and return those that have one."""
        moved = np.empty(len(topics), bool)
        _advance(topics, moved, self.judged, self.found, self.places, *self._fixed)
        return topics[moved]


@lru_cache(maxsize=16)
def _factors(confidence: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return shapes of gamma distributions and, for each, shape / quantile at 1 - confidence."""
    shapes = np.geomspace(0.5, 1e6, 2048)
    return np.append(shapes, np.inf), np.append(shapes / gammaincinv(shapes, 1 - confidence), 1.0)


@njit(nogil=True, cache=True)
def _decay_of(mean, means, decays):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return the same as `_decay` for one mean."""
    if mean >= means[-1]:
        return 0.0
    if mean <= means[0]:
        return decays[0]
    at = int(np.searchsorted(means, mean, side="right")) - 1
    return (decays[at + 1] - decays[at]) / (means[at + 1] - means[at]) * (mean - means[at]) + decays[at]


@njit(nogil=True, cache=True)
def _advance(topics, moved, judged, found, places, relevant, offsets, recall, most, means, decays, shapes, factors):  # type: ignore[no-untyped-def]  # pragma: no cover
    for number in range(len(topics)):
        topic = topics[number]
        size = offsets[topic + 1] - offsets[topic]
        moved[number] = False
        end, skipped = 0, False
        for place in range(judged[topic], size):
            judged[topic] = place + 1
            if relevant[offsets[topic] + place]:
                found[topic] += 1
                places[topic] += place + 0.5
            if not found[topic]:
                continue
            if place >= end:
                # Up to the next relevant document only the number of judgements changes, and the expectation falls
                # with it: if the last of these judgements is not enough by far, none is.
                end = place + 1
                while end < size and not relevant[offsets[topic] + end]:
                    end += 1
                allowed = math.floor(found[topic] / recall - found[topic] + 1e-9)
                skipped = size - end > allowed
                if skipped:
                    bound = most[min(allowed, len(most) - 1)] * (1 + 1e-6) / found[topic]
                    mean = places[topic] / found[topic] / end
                    skipped = not _rest(_decay_of(mean, means, decays), size / end - 1) <= bound
            if skipped:
                continue
            allowed = math.floor(found[topic] / recall - found[topic] + 1e-9)
            if size - place - 1 > allowed:
                left = size / (place + 1) - 1
                bound = most[min(allowed, len(most) - 1)] * (1 + 1e-9) / found[topic]
                mean = places[topic] / found[topic] / (place + 1)
                decay = _decay_of(mean, means, decays)
                if not _rest(decay, left) <= bound:
                    continue
                z = max(decay, 1e-2)
                variance = 1 / z**2 - 1 / (4 * math.sinh(min(z, 700) / 2) ** 2)
                shape = found[topic] * mean**2 / variance * (1 + 1e-9)
                factor = factors[np.searchsorted(shapes, shape)] * (1 - 1e-9)
                if not _rest(_decay_of(mean * factor, means, decays), left) <= bound:
                    continue
            moved[number] = True
            break


@njit(nogil=True, cache=True)
def _rest(decay, left):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return the rate's integral over the rest by that over the judged part."""
    if decay == 0:
        return left
    return math.exp(-decay) * math.expm1(-decay * left) / math.expm1(-decay)
