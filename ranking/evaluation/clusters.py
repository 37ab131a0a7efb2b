"""Measures how well a ranker's embeddings cluster by category."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.lazy import sklearn, threadpoolctl

STARTS = 10
"""The number of k-means restarts; the best one counts."""


def agreement(vectors: NDArray[np.float32], categories: NDArray[np.integer]) -> dict[str, float]:
    """Return the mutual information of the categories and as many clusters of the embeddings.

    Saeidi et al. 2017, section 4.1.

    Args:
        vectors: float32 [n, dimension].
        categories: int [n], −1 for none: such texts are left out.

    Returns:
        MI in bits, MI/H as a share of the categories' entropy, and AMI, adjusted for chance (Vinh et al. 2010), which
        MI is not: it grows with the number of clusters. All 0 if there is one category.
    """
    known = categories >= 0
    vectors, categories = vectors[known], categories[known]
    number = len(np.unique(categories))
    if number < 2:
        return {"MI": 0.0, "MI/H": 0.0, "AMI": 0.0}
    with threadpoolctl.threadpool_limits(1):  # the number of threads decides the last bits, and sometimes an assignment
        clusters = sklearn.cluster.KMeans(number, n_init=STARTS, random_state=0).fit_predict(vectors.astype(np.float64))
    return information(clusters, categories)


def information(clusters: NDArray[np.integer], categories: NDArray[np.integer]) -> dict[str, float]:
    """Return the three figures of `agreement` for a given clustering."""
    shares = np.unique(categories, return_counts=True)[1] / len(categories)
    entropy = float(-(shares * np.log2(shares)).sum())
    bits = float(sklearn.metrics.mutual_info_score(categories, clusters) / np.log(2))
    adjusted = float(sklearn.metrics.adjusted_mutual_info_score(categories, clusters))
    return {"MI": bits, "MI/H": bits / entropy if entropy else 0.0, "AMI": adjusted}
