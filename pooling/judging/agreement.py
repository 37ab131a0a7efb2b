"""Measures how far two assessors agree beyond chance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def cohen_kappa(first: Sequence[int], second: Sequence[int]) -> float:
    """Cohen's κ of the grades that two assessors gave the same documents, in the same order (Cohen 1960).

    κ = (p_o - p_e) / (1 - p_e): p_o is the share of documents with equal grades, p_e the share to expect if both drew
    their grades by chance, each as often as they gave them. Grades count as names: 0 and 3 differ no more than 0 and 1.

    Returns:
        1 for full agreement, 0 for chance; NaN without documents, or where both gave one and the same grade to all:
        chance explains that fully.

    Raises:
        ValueError: where the lists differ in length.
    """
    if len(first) != len(second):
        raise ValueError(f"{len(first)} grades against {len(second)}")
    if not len(first):
        return float("nan")
    grades = np.unique([*first, *second])
    one, other = (np.asarray(given)[:, None] == grades for given in (first, second))
    observed = float((one & other).any(1).mean())
    expected = float(one.mean(0) @ other.mean(0))
    return float("nan") if expected == 1 else (observed - expected) / (1 - expected)
