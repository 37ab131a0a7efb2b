"""Builds the ranker that a configuration asks for."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import torch

from cluster.config.build import build
from cluster.runs.parts import Base
from ranking.rankers.ranker import Ranker
from ranking.rankers.static import Vocabulary


def make_ranker(config: dict[str, Any], base: Base, rng: np.random.Generator) -> Ranker:
    """The configured ranker, its weights drawn.

    Args:
        config: composed.
        base: what every run takes.
        rng: draws weights, and vectors of words that have none.
    """
    generator = torch.Generator().manual_seed(int(rng.integers(2**63)))
    factory = build(config["ranker"])
    given: dict[str, Any] = {"labels": base.encoded.label_counts} if config["ranker"].get("categories") else {}
    asked = inspect.signature(factory).parameters
    if "idf" in asked:
        given["idf"] = base.encoded.idf
    if "vocabulary" in asked and len(base.spelled):
        given["vocabulary"] = Vocabulary(base.words, config["encoding"]["max_document"])
    ranker: Ranker = factory(vectors=base.vectors.filled(rng), generator=generator, **given)
    if config.get("peft"):
        build(config["peft"], "peft").add_to(ranker, generator)
    return ranker
