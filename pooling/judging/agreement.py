"""Measures how far assessors agree beyond chance."""

from __future__ import annotations

import math
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pyrite.ranking.lazy import sklearn


def cohen_kappa(counts: Mapping[tuple[int, int], int]) -> float | None:
    """Compute `weighted_kappa` from the number of documents by the grades that the first and the second gave."""
    first, second = zip(*counts, strict=True) if counts else ((), ())
    return weighted_kappa(first, second, list(counts.values()))


def weighted_kappa(first: ArrayLike, second: ArrayLike, weights: ArrayLike) -> float | None:
    """Compute Cohen's κ of two grades per document (Cohen 1960); each document counts `weights` times.

    Grades count as names: 0 and 3 differ no more than 0 and 1. None without documents, or if both gave the same grade
    to all: chance explains that completely.
    """
    if len(np.unique([first, second])) < 2:
        return None

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about undefined values, which the caller reports
        kappa = float(sklearn.metrics.cohen_kappa_score(first, second, sample_weight=weights))
    return None if math.isnan(kappa) else kappa


def agreement_of(counts: Mapping[tuple[int, int], int], relevant_from: int) -> dict[str, Any]:
    """Compute how far two judges agree, by the number of documents for each pair of their grades."""
    relevance = Counter[tuple[int, int]]()
    for (first, second), documents in counts.items():
        relevance[int(first >= relevant_from), int(second >= relevant_from)] += documents
    return {
        "documents": sum(counts.values()),
        "equal": sum(documents for (first, second), documents in counts.items() if first == second),
        "kappa": cohen_kappa(counts),
        "kappa_relevance": cohen_kappa(relevance),
    }


def krippendorff_alpha(documents: Iterable[Sequence[int]]) -> float | None:
    """Compute Krippendorff's α of the ordinal grades of each document, by any number of assessors (Krippendorff 2011,
    "Computing Krippendorff's alpha-reliability").

    Two grades differ by the square of the number of grades given between them: 0 and 3 more than 0 and 1. None without
    documents with two grades, or if all grades are equal.
    """
    pairs: defaultdict[tuple[int, int], float] = defaultdict(float)
    for given in documents:
        for pair in permutations(given, 2):
            pairs[pair] += 1 / (len(given) - 1)
    grades = sorted({grade for pair in pairs for grade in pair})
    if len(grades) < 2:
        return None
    totals = {grade: sum(count for (first, _), count in pairs.items() if first == grade) for grade in grades}

    def apart(one: int, other: int) -> float:
        between = [totals[grade] for grade in grades if min(one, other) <= grade <= max(one, other)]
        return 0.0 if one == other else (sum(between) - (totals[one] + totals[other]) / 2) ** 2

    total = sum(totals.values())
    observed = sum(count * apart(*pair) for pair, count in pairs.items())
    expected = sum(totals[one] * totals[other] * apart(one, other) for one in grades for other in grades) / (total - 1)
    return 1 - observed / expected
