"""Measures how similarly two evaluations rank the same runs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

DIGITS = 12
"""Decimals of a score that count: two equal means whose sums were added in another order are a tie."""


def kendall_tau(full: NDArray[np.float64], partial: NDArray[np.float64]) -> float:
    """Compute Kendall's τ-b: pairs of runs in the same order minus pairs in opposite order, as a share.

    The share is of the geometric mean of the pairs that either evaluation tells apart (Kendall 1945, "The treatment of
    ties in ranking problems"), so tied pairs count neither for nor against.

    Args:
        full: [runs], scores by one evaluation.
        partial: [runs], scores by the other.

    Returns:
        A number from -1 to 1; NaN if either ties all runs.
    """
    # The same as scipy.stats.kendalltau, which tests compare it with: that takes eight times as long for some dozens of
    # runs, and simulations of judging call this thousands of times.
    a, b = _compared(full), _compared(partial)
    pairs = float(np.count_nonzero(a)) * float(np.count_nonzero(b))
    return float((a * b).sum()) / pairs**0.5 if pairs else float("nan")


def tau_ap(full: NDArray[np.float64], partial: NDArray[np.float64]) -> float:
    """Compute the AP correlation, which is like Kendall's τ but gives more weight to disorder among the best runs.

    A run is drawn from the partial evaluation's ranking (not the first one), and then one of those ranked above it:
    τ_AP is the probability that the full evaluation has the two in the same order, minus that of the opposite order
    (Yilmaz, Aslam and Robertson 2008, "A new rank correlation coefficient for information retrieval", section 4).

    If the partial evaluation ties runs, both orders of a tied pair are equally likely: the value is the mean over all
    orders, in closed form, without sampling (Urbano and Marrero 2017, "The treatment of ties in AP correlation",
    τ_AP,a). Pairs that the full evaluation ties have no right order and are left out, as in τ-b, so that an estimate
    equal to the truth has 1.

    Args:
        full: [runs], scores by the evaluation to be estimated.
        partial: [runs], scores by the estimate. The two are not interchangeable: ranks are those of the estimate.

    Returns:
        A number from -1 to 1; 0 if the partial evaluation ties all runs, NaN if the full one does.
    """
    truth, estimate = _compared(full), _compared(partial)
    below, tied = estimate < 0, estimate == 0
    above, group = below.sum(1), tied.sum(1)
    # Over all orders of its ties, a run takes each position of its group equally often, and there it meets each of the
    # `above` runs before the group with the probability 1/above, 1/(above + 1), …: their mean is `before`. With the
    # rest
    # of the probability it meets a run of its group; the very first position meets no run.
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, len(full)))])
    before = np.where(above > 0, (harmonic[above + group - 1] - harmonic[np.maximum(above, 1) - 1]) / group, 0.0)
    within = np.where(above > 0, (1 - above * before) / np.maximum(group - 1, 1), 1 / group)
    met = below * before[:, None] + tied * within[:, None]
    decided = float((met * (truth != 0)).sum())
    return float((truth * estimate * below * before[:, None]).sum()) / decided if decided else float("nan")


class Drop(NamedTuple):
    """The run that loses most.

    Args:
        ranks: the ranks that it loses; halves result from ties.
        run: its number; the first if there are several, None if no run loses a rank.
    """

    ranks: float
    run: int | None


def largest_drop(full: NDArray[np.float64], partial: NDArray[np.float64]) -> Drop:
    """Find the most ranks that a run loses from the full evaluation to the partial one.

    Args:
        full: [runs], scores, at least one.
        partial: [runs].
    """
    lost = ranks(partial) - ranks(full)
    worst = int(lost.argmax())
    return Drop(float(lost[worst]), worst if lost[worst] > 0 else None)


def ranks(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rank each run, the highest score first with rank 1; tied runs share the mean of their ranks: [runs]."""
    compared = _compared(scores)
    return (compared < 0).sum(1) + ((compared == 0).sum(1) + 1) / 2


def _compared(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Compare each pair: 1 if the row's run has the higher score, -1 if the column's has, 0 for ties: [runs, runs]."""
    rounded = np.round(scores, DIGITS)
    return (rounded[:, None] > rounded).astype(np.int64) - (rounded[:, None] < rounded)
