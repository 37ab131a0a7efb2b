"""Measures how far assessors agree beyond chance."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
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
    given = [list(grades) for grades in documents if len(grades) > 1]
    grades = np.unique(list(chain.from_iterable(given)))
    if len(grades) < 2:
        return None
    counts = np.array([[document.count(grade) for grade in grades] for document in given], float)
    weighted = counts / (counts.sum(1, keepdims=True) - 1)
    pairs = weighted.T @ counts - np.diag(weighted.sum(0))  # of two assessors' grades; no grade pairs with itself
    totals = pairs.sum(0)
    middles = np.cumsum(totals) - totals / 2
    apart = (middles[:, None] - middles) ** 2
    expected = totals @ apart @ totals / (totals.sum() - 1)
    return 1 - float((pairs * apart).sum() / expected)
