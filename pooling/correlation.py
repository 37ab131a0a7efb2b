"""Measures how similarly two evaluations rank the same runs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

DIGITS = 12
"""Decimals of a score that count: two equal means whose sums were added in another order are a tie."""


def kendall_tau(full: NDArray[np.float64], partial: NDArray[np.float64]) -> float:
    """Compute Kendall's τ-b: pairs of runs in the same order minus pairs in opposite order, as a share, from -1 to 1.

    The share is of the geometric mean of the pairs that either evaluation tells apart (Kendall 1945, "The treatment of
    ties in ranking problems"), so tied pairs count neither for nor against. NaN if either ties all runs.

    Args:
        full, partial: [runs], scores by one evaluation and by the other.
    """
    [tau] = kendall_taus(full, partial[None, :])
    return tau


def kendall_taus(full: NDArray[np.float64], partials: NDArray[np.float64]) -> list[float]:
    """Compute `kendall_tau` for each of several evaluations, [evaluations, runs], with one full evaluation or with as
    many.
    """
    # The same as scipy.stats.kendalltau, which tests compare it with: that takes eight times as long for some dozens of
    # runs, and simulations of judging call this thousands of times.
    fulls = np.repeat(full[None, :], len(partials), 0) if full.ndim == 1 else full
    counts = _agreements(np.round(fulls, DIGITS), np.round(partials, DIGITS))
    pairs = [float(a) * float(b) for _, a, b in counts.tolist()]
    return [
        agreeing / both**0.5 if both else float("nan")
        for agreeing, both in zip(counts[:, 0].tolist(), pairs, strict=True)
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
    equal to the truth has 1.

    Args:
        full: [runs], scores by the evaluation to be estimated.
        partials: [estimates, runs], scores by the estimates. The two are not interchangeable: ranks are those of the
            estimate.

    Returns:
        Numbers from -1 to 1; 0 if the partial evaluation ties all runs, NaN if the full one does.
    """
    met, agreeing = np.empty((len(full), len(full))), np.empty((len(full), len(full)))
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, len(full)))])
    full, taus = np.round(full, DIGITS), []
    for partial in np.round(partials, DIGITS):
        _meetings(full, partial, harmonic, met, agreeing)
        decided = float(met.sum())
        taus.append(float(agreeing.sum()) / decided if decided else float("nan"))
    return taus


class Drop(NamedTuple):
    """The run that loses most.

    Args:
        ranks: the ranks that it loses; halves result from ties.
        run: its number; the first if there are several, None if no run loses a rank.
    """

    ranks: float
    run: int | None


def largest_drops(full: NDArray[np.float64], partials: NDArray[np.float64]) -> list[Drop]:
    """Find the most ranks that a run loses from the full evaluation to each of several others.

    Args:
        full: [runs], scores, at least one.
        partials: [evaluations, runs].
    """
    lost = ranks(partials) - ranks(full)
    worst = lost.argmax(1)
    most = lost[np.arange(len(lost)), worst]
    return [Drop(by, run if by > 0 else None) for by, run in zip(most.tolist(), worst.tolist(), strict=True)]


def ranks(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rank each run, the highest score first with rank 1; tied runs share the mean of their ranks: [..., runs]."""
    rounded = np.round(scores, DIGITS)
    one, other = rounded[..., :, None], rounded[..., None, :]
    ranked: NDArray[np.float64] = (one < other).sum(-1) + ((one == other).sum(-1) + 1) / 2
    return ranked


@njit(nogil=True, cache=True)
def _agreements(fulls, partials):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Count ordered pairs: those in the same order minus those in opposite order, and those that each tells apart."""
    counts = np.zeros((len(partials), 3), np.int64)
    for number in range(len(partials)):
        full, partial = fulls[number], partials[number]
        for one in range(len(full)):
            for other in range(len(full)):
                a = (full[one] > full[other]) - (full[one] < full[other])
                b = (partial[one] > partial[other]) - (partial[one] < partial[other])
                counts[number, 0] += a * b
                counts[number, 1] += a != 0
                counts[number, 2] += b != 0
    return counts


@njit(nogil=True, cache=True)
def _meetings(full, partial, harmonic, met, agreeing):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Fill in, for a run (row) drawn from the partial ranking, the probability that it meets each other run above it;
    and that probability with the sign of their agreement, 0 for a tie of the partial one. Ties of the full one are 0.

    Over all orders of its ties, a run takes each position of its group equally often, and there it meets each of the
    `above` runs before the group with the probability 1/above, 1/(above + 1), …: their mean is `before`. With the rest
    of the probability it meets a run of its group; the very first position meets no run.
    """
    for run in range(len(full)):
        above, group = 0, 0
        for other in range(len(full)):
            above += partial[run] < partial[other]
            group += not (partial[run] < partial[other] or partial[run] > partial[other])
        before = (harmonic[above + group - 1] - harmonic[above - 1]) / group if above else 0.0
        within = (1 - above * before) / max(group - 1, 1) if above else 1 / group
        for other in range(len(full)):
            truth = (full[run] > full[other]) - (full[run] < full[other])
            met[run, other], agreeing[run, other] = 0.0, 0.0
            if truth and partial[run] < partial[other]:
                met[run, other], agreeing[run, other] = before, -truth * before
            elif truth and not partial[run] > partial[other]:
                met[run, other] = within
