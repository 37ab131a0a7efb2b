"""Trains the rankers among the systems of a pool, and scores lists by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyrite.cluster.config.compose import compose_recorded
from pyrite.cluster.runs.assemble import assemble
from pyrite.cluster.runs.parts import Base, Lists
from pyrite.ranking.bm25 import Bm25Options
from pyrite.ranking.evaluation.origins import Bm25Candidates
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.ranking.scoring import score_candidates
from pyrite.ranking.threads import threads
from pyrite.sampling.guarded_documents import GuardedDocuments

if TYPE_CHECKING:
    from pyrite.pooling.systems.inputs import SystemInputs
    from pyrite.ranking.ranked_lists import RankedLists


def rerank(inputs: SystemInputs, lists: RankedLists, overrides: Sequence[str]) -> NDArray[np.float32]:
    """Train a ranker on the split of the inputs, and return its scores of lists, one row per topic.

    Args:
        overrides: the ranker and its training, as in `pyrite train`. Negatives come from `function=bm25` or `random`.
    """
    config = compose_recorded(["seed=0", "policy=fixed", "selector=uniform", *overrides])
    validation = Bm25Candidates(inputs.depth).of(inputs.sources, inputs.split.dev)
    parts: dict[str, Any] = {"base": Base(inputs.encoded, inputs.vectors, [inputs.split]), "validation": validation}
    for name in config["function"]:
        negatives = None
        if name == "bm25":  # lists of the training queries; all others are empty
            train, negatives = inputs.split.train, RankedLists.empty(len(inputs.encoded.queries), inputs.depth)
            ranked, _ = inputs.sources.bm25(Bm25Options()).search(train, inputs.depth)
            negatives.documents[train], negatives.scores[train] = ranked.documents, ranked.scores
            negatives = negatives.without_relevant(inputs.encoded.judgements)
        parts[f"function:{name}"] = Lists(negatives, GuardedDocuments.joined([]))
    with threads(1):  # the sums of several threads differ in their last bits
        training, sampler = assemble(config, parts, 0)
        training.fit(sampler)
        return score_candidates(training.ranker, inputs.encoded, inputs.split.test, lists.documents)
