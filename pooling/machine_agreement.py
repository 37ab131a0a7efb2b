"""Measures how far a machine's grades agree with people's, on a random sample of the pool."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import cohen_kappa_score

from pooling.adjudicators.sampled import Sample
from pooling.pool import TopicPool
from pooling.sentinels import NO_GRADE


def sampled_kappa(
    pools: Sequence[TopicPool], samples: Sequence[Sample], relevant: Sequence[NDArray[np.bool_]], relevant_from: int
) -> float | None:
    """Compute Cohen's κ of relevance by people and by a machine, over the whole pool: a judged document counts for all
    documents that it represents.

    An order that looks for relevant documents meets those that the machine, too, finds relevant: κ of these alone means
    little. So the κ is that of a sample (`pooling.adjudicators.sampled.Sampled`), by its weights.

    Args:
        pools: the topics' pools, with the machine's grades.
        samples: the documents of each that people judged.
        relevant: for each topic bool [documents]; values of documents not judged are ignored.
        relevant_from: lowest grade that counts as relevant.

    Returns:
        None if there are no documents that both judged, or if both gave one verdict to all.
    """
    people, machine, weights = [], [], []
    for pool, sample, known in zip(pools, samples, relevant, strict=True):
        both = (sample.weights > 0) & (pool.machine != NO_GRADE)
        people.append(known[both])
        machine.append(pool.machine[both] >= relevant_from)
        weights.append(sample.weights[both])
    if not weights:
        return None
    said, read, weigh = map(np.concatenate, (people, machine, weights))
    if len(np.unique(np.concatenate([said, read]))) < 2:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about undefined values, which the caller reports
        kappa = float(cohen_kappa_score(said, read, sample_weight=weigh))
    return None if math.isnan(kappa) else kappa
