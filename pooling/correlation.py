"""Measures how similarly two evaluations rank the same runs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

DIGITS = 12
"""Decimals of a score that count: two equal means whose sums were added in another order are a tie."""


def kendall_tau(full: NDArray[np.float64], partial: NDArray[np.float64]) -> float:
    """Compute Kendall's τ-b: pairs of runs in the same order minus pairs in opposite order, as a share, from -1 to 1.

    The share is of the geometric mean of the pairs that either evaluation distinguishes (Kendall 1945, "The treatment
    of ties in ranking problems"), so tied pairs count neither for nor against. NaN if either ties all runs.
    """
    [tau] = kendall_taus(full, partial[None, :])
    return tau


def kendall_taus(full: NDArray[np.float64], partials: NDArray[np.float64]) -> list[float]:
    """Compute `kendall_tau` for each of several evaluations, [evaluations, runs], with one full evaluation or with as
    many.
    """
    # The same as scipy.stats.kendalltau, which tests compare it with: that takes eight times as long for some dozens of
    # runs, and simulations of judging call this thousands of times.
    one, other = _signs(full), _signs(partials)
    agreeing = (one * other).sum((-2, -1))
    both = np.count_nonzero(one, (-2, -1)).astype(np.float64) * np.count_nonzero(other, (-2, -1))
    return [
        same / pairs**0.5 if pairs else float("nan")
        for same, pairs in zip(agreeing.tolist(), both.tolist(), strict=True)
    ]


def tau_aps(full: NDArray[np.float64], partials: NDArray[np.float64]) -> list[float]:
    """Compute the AP correlation of each of several estimates with an evaluation. It is like Kendall's τ but gives more
    weight to disorder among the best runs.

    A run is drawn from the partial evaluation's ranking (not the first one), and then one of those ranked above it:
    τ_AP is the probability that the full evaluation has the two in the same order, minus that of the opposite order
    (Yilmaz, Aslam and Robertson 2008, "A new rank correlation coefficient for information retrieval", section 4).

    If the partial evaluation ties runs, both orders of a tied pair are equally likely: the value is the mean over all
    orders, in closed form, without sampling (Urbano and Marrero 2017, "The treatment of ties in AP correlation",
    τ_AP,a). Pairs that the full evaluation ties have no right order and are left out, as in τ-b, so that an estimate
    equal to the truth has 1. An estimate that ties all runs has 0, a truth that does gives NaN. The two are not
    interchangeable: ranks are those of the estimate.

    Args:
        full, partials: scores by the evaluation to be estimated, [runs], and by the estimates, [estimates, runs].
    """
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, len(full)))])
    truth, taus = _signs(full), []
    for order in _signs(partials):
        higher, tied = order < 0, order == 0
        # Over all orders of its ties, a run takes each position of its group equally often, and there it meets each of
        # the `above` runs before the group with the probability 1/above, 1/(above + 1), …: their mean is `before`. With
        # the rest of the probability it meets a run of its group; the very first position meets no run.
        above, group = higher.sum(1), tied.sum(1)
        before = np.where(above > 0, (harmonic[above + group - 1] - harmonic[above - 1]) / group, 0.0)
        within = np.where(above > 0, (1 - above * before) / np.maximum(group - 1, 1), 1 / group)
        met = np.where(higher, before[:, None], np.where(tied, within[:, None], 0.0)) * (truth != 0)
        decided = float(met.sum())
        taus.append(float((met * -truth * higher).sum()) / decided if decided else float("nan"))
    return taus


def largest_drops(full: NDArray[np.float64], partials: NDArray[np.float64]) -> list[tuple[float, int | None]]:
    """Find the most ranks that a run loses from the full evaluation, [runs], to each of several others, [evaluations,
    runs], and which run: the first if there are several, None if no run loses a rank. Halves result from ties.
    """
    lost = ranks(partials) - ranks(full)
    worst = lost.argmax(1)
    most = lost[np.arange(len(lost)), worst]
    return [(by, run if by > 0 else None) for by, run in zip(most.tolist(), worst.tolist(), strict=True)]


def ranks(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rank each run, the highest score first with rank 1; tied runs share the mean of their ranks: [..., runs]."""
    order = _signs(scores)
    ranked: NDArray[np.float64] = (order < 0).sum(-1) + ((order == 0).sum(-1) + 1) / 2
    return ranked


def _signs(scores: NDArray[np.float64]) -> NDArray[np.int8]:
    """Compare each run (row) with each other one: 1 if its score is higher, -1 if it is lower: [..., runs, runs]."""
    rounded = np.round(scores, DIGITS)
    one, other = rounded[..., :, None], rounded[..., None, :]
    return (one > other).astype(np.int8) - (one < other)
