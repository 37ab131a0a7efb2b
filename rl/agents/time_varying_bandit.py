"""Chooses settings by a Gaussian process over time and settings: what favours most gain now (PB2)."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
TRIED = 512
"""Settings among which the next ones are looked for."""


def favoured(
    inputs: Floats, gains: Floats, time: float, count: int, rng: np.random.Generator, kappa: float = 1.0
) -> Floats:
    """Settings with the highest mean and deviation of gain at a time, each known when the next is chosen.

    As PB2 does it (Parker-Holder et al. 2020, algorithm 1): an upper confidence bound of a Gaussian process that
    forgets, where settings that are chosen but not tried yet count with the mean that it expects of them. Its kernel is
    a radial basis function over time and settings, with a length for each of them, and noise; the paper's decays
    exponentially in time. Lengths and noise are those of the highest marginal likelihood. Gains are standardised within
    each time, since they shrink as a training goes on: what counts is who gains more.

    Args:
        inputs: [n, 1 + settings] time and settings of what is known, from 0 to 1.
        gains: [n].
        time: at which settings are to serve.
        count: settings that are chosen.
        rng: draws those that are tried.
        kappa: deviations that are added to the mean.

    Returns:
        [count, settings], from 0 to 1.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, WhiteKernel

    gains, numbers = gains.copy(), inputs.shape[1] - 1
    for each in np.unique(inputs[:, 0]):
        at = inputs[:, 0] == each
        gains[at] = (gains[at] - gains[at].mean()) / max(float(gains[at].std()), 1e-9)
    kernel = RBF([0.5] * inputs.shape[1], (0.05, 5)) + WhiteKernel(0.3, (0.01, 3))
    process = GaussianProcessRegressor(kernel)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        process.fit(inputs, gains)
    process = GaussianProcessRegressor(process.kernel_, optimizer=None)
    found = []
    for _ in range(count):
        tried = rng.random((TRIED, numbers))
        asked = np.concatenate([np.full((TRIED, 1), time), tried], axis=1)
        process.fit(inputs, gains)
        mean, deviation = process.predict(asked, return_std=True)
        best = int((mean + kappa * deviation).argmax())
        found.append(tried[best])
        inputs, gains = np.concatenate([inputs, asked[best : best + 1]]), np.append(gains, mean[best])
    return np.array(found)
