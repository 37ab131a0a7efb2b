"""Tests whether two samples of runs differ, and bounds the mean of one.

Cohen et al. 2019 (section 5.4) judge a sampling policy by the two-tailed t-test and, because they ask for
consistency over seeds and hyperparameters and not only for the mean, by the Kolmogorov-Smirnov test. Both take the
samples as independent; where runs share their seeds, the paired tests see more.

A test that cannot be made (fewer than two values, or no spread to measure a difference by) gives NaN, never a warning:
in a sweep some cell always has one run, or a method that fails alike every time. Equal values are a test whose p is 1,
so that the number of tests in a family does not depend on how alike the methods are.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import reduce
from math import comb
from operator import or_
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy  # whose `stats` comes when it is first asked for: a third of a second that no worker of Ray needs

Sample = npt.NDArray[np.floating[Any]] | Sequence[float]

NAN = float("nan")
AT_ONCE = 1 << 22
"""Values that a bootstrap draws at once: 64 MiB with their places. How many that are changes no result."""


def t_test(a: Sample, b: Sample) -> float:
    """p of Student's two-tailed t-test (pooled variance) that two independent samples have one mean.

    NaN if either has fewer than two values, or both are constant and differ: without spread there is no t.
    """
    if min(len(a), len(b)) < 2:
        return NAN
    if _constant(a) and _constant(b):
        return 1.0 if _constant([*a, *b]) else NAN
    of_a, of_b = ((np.mean(x), np.std(x, ddof=1), len(x)) for x in (a, b))
    return float(scipy.stats.ttest_ind_from_stats(*of_a, *of_b).pvalue)


def paired_t_test(a: Sample, b: Sample) -> float:
    """p of the two-tailed t-test that paired values (e.g. of the same queries) differ by 0 on average.

    1 if no pair differs; NaN with fewer than two pairs, or if all pairs differ by the same amount.
    """
    difference = np.asarray(a, np.float64) - np.asarray(b, np.float64)
    if len(difference) < 2:
        return NAN
    scale = max(np.abs(a).max(), np.abs(b).max())
    if _constant(difference, scale):
        return 1.0 if _constant([*difference, 0.0], scale) else NAN
    # The same as scipy.stats.ttest_1samp to the last bit, without `scipy.stats`, which takes a second to import.
    count, mean = len(difference), difference.mean()
    variance = ((difference - mean) ** 2).mean() * (count / (count - 1))
    return float(2 * scipy.special.stdtr(count - 1, -abs(mean / np.sqrt(variance / count))))


def sign_test(a: Sample, b: Sample) -> float:
    """p of the two-tailed sign test that of paired values either is the greater equally often.

    Pairs without a difference do not count: if there are no others, p is 1. Five pairs cannot reach p < .05 (the least
    is .0625), six can. NaN with fewer than two pairs.
    """
    difference = np.asarray(a, np.float64) - np.asarray(b, np.float64)
    above, below = int((difference > 0).sum()), int((difference < 0).sum())
    if len(difference) < 2:
        return NAN
    return 1.0 if above + below == 0 else float(scipy.stats.binomtest(above, above + below).pvalue)


def kolmogorov_smirnov(a: Sample, b: Sample) -> float:
    """p of the two-sample Kolmogorov-Smirnov test that both samples have one distribution.

    Exact for small samples: two samples of three runs never reach p < .05 (the least is .1), of four they do
    only without any overlap (.029). NaN where either has fewer than two values; constant samples are fine.
    """
    if min(len(a), len(b)) < 2:
        return NAN
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # that it is not exact for samples that are too large
        return float(scipy.stats.ks_2samp(a, b).pvalue)


def effect_size(a: Sample, b: Sample) -> float:
    """Cohen's d: the difference of the means, a's minus b's, in pooled sample standard deviations.

    NaN where either has fewer than two values, or both are constant: the difference is then beyond any
    scale, and a made-up finite number would mislead.
    """
    if min(len(a), len(b)) < 2 or (_constant(a) and _constant(b)):
        return NAN
    squares = np.var(a) * len(a) + np.var(b) * len(b)
    return float((np.mean(a) - np.mean(b)) / np.sqrt(squares / (len(a) + len(b) - 2)))


def holm(p: Sample) -> npt.NDArray[np.float64]:
    """Adjust a family's p values for their number (Holm 1979): the k-th least of m times m - k + 1.

    Adjusted values never decrease in that order and stay at most 1. NaN values stay NaN and do not count as
    tests.
    """
    return _stepped_down(p, np.arange(len(p), 0, -1))


def shaffer(p: Sample, means: int) -> npt.NDArray[np.float64]:
    """Adjust the p values of all pairs of some means (Shaffer 1986, her first method).

    The k-th least p is multiplied by the number of pairs that may be equal if k - 1 differ. That is Holm's number or
    less: of three means with one pair that differs, at most one other pair is equal.

    Args:
        p: one value per pair; NaN values stay NaN and do not count as tests.
        means: the number of means.
    """
    possible = _equal_pairs(means)
    left = np.arange(len(p), 0, -1)
    return _stepped_down(p, possible[np.searchsorted(possible, left, "right") - 1])


def _stepped_down(p: Sample, most: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Multiply each p by the most hypotheses that may hold if all with a lower one are false."""
    p = np.asarray(p, np.float64)
    adjusted = np.full(len(p), NAN)
    tests = np.flatnonzero(~np.isnan(p))
    order = tests[np.argsort(p[tests], kind="stable")]
    weights = np.minimum(np.arange(len(order), 0, -1), most[: len(order)])
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * weights), 1.0)
    return adjusted


def _equal_pairs(means: int) -> npt.NDArray[np.int64]:
    """Return how many pairs of some means can be equal, ascending: those within groups of equal ones."""
    numbers = [1]  # of each number of means, a bit per number of pairs
    for count in range(1, means + 1):
        numbers.append(reduce(or_, (numbers[count - of] << comb(of, 2) for of in range(1, count + 1))))
    return np.flatnonzero(np.array([*bin(numbers[means])[:1:-1]]) == "1")


def bootstrap_interval(sample: Sample, generator: np.random.Generator) -> tuple[float, float]:
    """The 95% percentile bootstrap interval (low, high) of a sample's mean (Efron 1979).

    It assumes no normal distribution, which a policy with a mode of failed runs does not have (Cohen et al.
    2019, figure 4). With a handful of runs it is too narrow, as every bootstrap is: it cannot go beyond the least
    and the greatest run. NaN for fewer than two values or a constant sample.
    """
    if len(sample) < 2 or _constant(sample):
        return NAN, NAN
    interval = scipy.stats.bootstrap(
        (np.asarray(sample, np.float64),),
        np.mean,
        vectorized=True,
        method="percentile",
        n_resamples=9999,
        batch=max(1, AT_ONCE // len(sample)),
        rng=generator,
    ).confidence_interval
    return float(interval.low), float(interval.high)


def _constant(sample: Sample, scale: float | None = None) -> bool:
    # Not by the variance: that of (.1, .1, .1) is rounding error, not 0.
    values = np.asarray(sample, np.float64)
    return bool(np.ptp(values) <= 1e-12 * (np.abs(values).max() if scale is None else scale))
