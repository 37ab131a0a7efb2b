"""Decides whether a configuration reads word vectors; other commands neither read nor require them."""

from __future__ import annotations

from typing import Any

from pyrite.cluster.config.agents import has_agent
from pyrite.cluster.config.build import build, locate
from pyrite.cluster.config.nested import parts_within
from pyrite.ranking.part import options_of

GROUPS = ("function", "origin", "batches", "objective", "teacher")
"""Groups whose parts may read word vectors, besides the ranker and an agent's states."""
RANDOM = {"_target_": "pyrite.ranking.vectors.RandomVectors"}
OURS = "pyrite."


def word_vectors(config: dict[str, Any]) -> dict[str, Any]:
    """Return the word vectors of a configuration: the chosen ones, or random ones if no part reads them."""
    node: dict[str, Any] = config["vectors"]
    return node if reads_word_vectors(config) else RANDOM


def reads_word_vectors(config: dict[str, Any]) -> bool:
    """Return whether a part reads word vectors. Classes from outside the project are given them.

    Args:
        config: the configuration of a run, or of a verb that has some of its groups.
    """
    return has_agent(config) or _ranker_reads(config.get("ranker")) or any(map(_reads, _targets(config)))


def _ranker_reads(node: dict[str, Any] | None) -> bool:
    """Return whether a ranker reads words, instead of a checkpoint's tokens or trigrams."""
    if not node:
        return False
    ranker = build(node, trust="composed")
    return ranker.tokenization(**options_of(ranker)) is None


def _targets(config: dict[str, Any]) -> list[str]:
    """Return the classes of the parts that may read word vectors."""
    return [part["_target_"] for part in parts_within([config.get(group) for group in GROUPS])]


def _reads(target: str) -> bool:
    return not target.startswith(OURS) or getattr(locate(target), "reads_word_vectors", False)
