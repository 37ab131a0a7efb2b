"""Measures how far two assessors agree beyond chance."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping

from sklearn.metrics import cohen_kappa_score


def cohen_kappa(counts: Mapping[tuple[int, int], int]) -> float | None:
    """Cohen's κ of the grades that two assessors gave the same documents (Cohen 1960).

    Grades count as names: 0 and 3 differ no more than 0 and 1.

    Args:
        counts: documents by the grades that the first and the second gave.

    Returns:
        1 for full agreement, 0 for chance; None without documents, or where both gave one and the same grade to all:
        chance explains that fully.
    """
    if len({grade for pair in counts for grade in pair}) < 2:
        return None
    first, second = zip(*counts, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of values that are not defined, which we say ourselves
        kappa = float(cohen_kappa_score(first, second, sample_weight=list(counts.values())))
    return None if math.isnan(kappa) else kappa
