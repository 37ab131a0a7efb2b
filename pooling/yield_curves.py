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

from collections.abc import Callable
from functools import lru_cache

import numpy as np
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
    quick: bool = False,
) -> NDArray[np.float64]:
    """Compute `exponential` from sums, without reading all judgements again.

    Args:
        judged, found: judgements so far, and relevant documents among them.
        places: sum of the relevant documents' positions in the order of judging; a judgement's position is its middle,
            ½ for the first.
        size: documents of the pool, of one topic or of each judgement's.
        quick: whether to compute a lower bound of it instead, a close one, by gamma quantiles from a table. At a
            confidence of .5 or more, quantile / shape rises with the shape (Gamma distributions are star-ordered), so
            the next larger shape of the table never expects more.
    """
    events = np.maximum(found, 1)
    # Mean position of the relevant documents as a share of the judged part.
    mean = np.where(found > 0, places / events / judged, 0.5)
    # The mean of that many draws is nearly gamma distributed; exactly if nothing is cut off.
    shape = events * mean**2 / _variance(_decay(mean))
    if quick:  # a little less, so that rounding makes it no upper bound
        shapes, factors = _factors(confidence)
        decay = _decay(mean * factors[np.searchsorted(shapes, shape * (1 + 1e-9))] * (1 - 1e-9))
    else:
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


@lru_cache(maxsize=16)
def _factors(confidence: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return shapes of gamma distributions and, for each, shape / quantile at 1 - confidence."""
    shapes = np.geomspace(0.5, 1e6, 2048)
    return np.append(shapes, np.inf), np.append(shapes / gammaincinv(shapes, 1 - confidence), 1.0)
