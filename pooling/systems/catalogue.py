"""Lists the systems of a synthetic pool by name: lexical, dense, trained and fused, good and bad."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pyrite.pooling.systems import models
from pyrite.pooling.systems.inputs import SystemInputs
from pyrite.pooling.systems.term_index import Scores, TermIndex

System = Callable[[SystemInputs], Scores]
"""Ranks for every topic; raises BadInput if this machine or this collection lacks a prerequisite."""


def _over(part: str, model: Callable[..., Scores], **parameters: Any) -> System:
    """Apply a model to one form of the texts; documents that share no term with a topic are not retrieved."""

    def system(inputs: SystemInputs) -> Scores:
        index: TermIndex = getattr(inputs, part)
        return np.where(index.matches, model(index, **parameters), -np.inf)

    return system


def _grams(n: int) -> System:
    def system(inputs: SystemInputs) -> Scores:
        index = inputs.grams(n)
        return np.where(index.matches, models.bm25(index, 1.2, 0.75), -np.inf)

    return system


def _dependence(inputs: SystemInputs) -> Scores:
    """Sequential dependence (Metzler and Croft 2005) with its published weights, without unordered windows."""
    both = 0.85 * models.dirichlet(inputs.stems, 1000) + 0.15 * models.dirichlet(inputs.pairs, 1000)
    return np.where(inputs.stems.matches, both, -np.inf)


def _semantics(dimensions: int) -> System:
    def system(inputs: SystemInputs) -> Scores:
        return models.dense_cosine(*(loadings[:, :dimensions] for loadings in inputs.semantics))

    return system


def _trained(negatives: str, *overrides: str) -> System:
    options = [f"function={negatives}", "training.batch_size=64", *overrides]
    return lambda inputs: inputs.spread(inputs.rescored("bm25_k12_b75", options))


def _fused(*names: str) -> System:
    return lambda inputs: models.reciprocal_ranks([inputs.made(name).documents for name in names], inputs.shape[1])


# The part of a name before its first digit or underscore names the family.
SYSTEMS: dict[str, System] = {
    "bm25_k09_b04": _over("stems", models.bm25, k1=0.9, b=0.4),
    "bm25_k12_b75": _over("stems", models.bm25, k1=1.2, b=0.75),
    "bm25_k12_b00": _over("stems", models.bm25, k1=1.2, b=0.0),
    "bm25_k20_b100": _over("stems", models.bm25, k1=2.0, b=1.0),
    "bm25_unstemmed": _over("words", models.bm25, k1=1.2, b=0.75),
    "bm25_plus": _over("stems", models.bm25_plus, k1=1.2, b=0.75),
    "bm25_l": _over("stems", models.bm25_l, k1=1.2, b=0.75),
    "tfidf_ltc": _over("stems", models.cosine),
    "tfidf_lnc": _over("stems", models.cosine, idf=False),
    "tfidf_pivoted": _over("stems", models.pivoted),
    "tfidf_unstemmed": _over("words", models.cosine),
    "ql_dirichlet_100": _over("stems", models.dirichlet, mu=100),
    "ql_dirichlet_2500": _over("stems", models.dirichlet, mu=2500),
    "ql_jm_10": _over("stems", models.jelinek_mercer, share=0.1),
    "ql_jm_70": _over("stems", models.jelinek_mercer, share=0.7),
    "dfr_dph": _over("stems", models.dph),
    "dfr_inl2": _over("stems", models.inl2),
    "feedback_rm3": _over("expanded", models.dirichlet, mu=1000),
    "feedback_rm3_bm25": _over("expanded", models.bm25, k1=1.2, b=0.75),
    "feedback_rocchio": _over("stems", models.rocchio),
    "coordination_level": _over("stems", models.coordination),
    "coordination_idf": _over("stems", models.shared_idf),
    "lead_bm25": _over("lead", models.bm25, k1=1.2, b=0.75),
    "lead_ql": _over("lead", models.dirichlet, mu=100),
    "proximity_pairs": _over("pairs", models.bm25, k1=1.2, b=0.75),
    "proximity_dependence": _dependence,
    "gram_3": _grams(3),
    "gram_5": _grams(5),
    "lsi_25": _semantics(25),
    "lsi_100": _semantics(100),
    "bag_mean": lambda inputs: inputs.bag_of_vectors(idf=False),
    "bag_idf": lambda inputs: inputs.bag_of_vectors(idf=True),
    "neural_random": _trained("random", "ranker=feed_forward", "ranker.preset=tiny", "training.max_epochs=3"),
    "neural_bm25": _trained("bm25", "ranker=feed_forward", "ranker.preset=tiny", "training.max_epochs=3"),
    "fusion_lexical": _fused("bm25_k09_b04", "ql_dirichlet_2500", "dfr_inl2"),
    "fusion_diverse": _fused("bm25_k12_b75", "gram_5", "lsi_100"),
    "fusion_feedback": _fused("feedback_rm3", "feedback_rocchio", "proximity_dependence"),
}
