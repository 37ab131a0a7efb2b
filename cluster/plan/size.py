"""Estimates how long a plan takes in this process, from its size: whether starting Ray for it would take longer.

The figures are of one core of a server of 2023, rounded; being wrong by half does no harm.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cluster.executors.resources import cores

RAY_START = 10.0
"""Seconds from `ray.init` to the first run's first step, its process and imports included."""
PER_TEXT = {"static": 2e-5, "feed_forward": 5e-5, "dssm": 5e-5, "match_pyramid": 4e-4}
"""Seconds to score a document for a query, at the usual width. Pretrained rankers are never that quick."""
PER_RUN = 0.15
"""Seconds of a run besides: building, keeping, writing."""
PER_JUDGEMENT, PER_CELL = 2e-6, 7e-7
"""Seconds to simulate a judgement, and to measure a run's document at some budgets."""


TURNS = 0.8
"""Share of a pool's work that threads take in turns: Python holds them to one core for it."""


def saved(seconds: float) -> float:
    """Seconds that work takes less on all cores of this machine than on one.

    Args:
        seconds: on one core.
    """
    return seconds * (1 - 1 / cores())


def run_seconds(config: Mapping[str, Any], ranker: str, queries: int, judgements: int) -> float | None:
    """Seconds that a run takes, at most; None where that is not known.

    Args:
        config: composed.
        ranker: the option's name.
        queries: of the collection, of all splits.
        judgements: of the collection.
    """
    if ranker not in PER_TEXT:
        return None
    limits = config["limits"]
    split = {name: min(queries, limits[name] or queries) for name in ("train", "dev", "test")}
    examples = min(judgements * split["train"] / max(queries, 1), limits["examples"] or judgements)
    in_batch = [*config["function"]] == ["in_batch"]
    read = 2 + (0 if in_batch else config["sampling"]["negatives"])  # the batch's own documents are read anyhow
    trained = examples * read * 3  # forward, backward, and what the selector scores
    validated = split["dev"] * 100 / 3
    measured = split["test"] * 100 * len(config["origin"]) / 3
    texts = config["training"]["max_epochs"] * (trained + validated) + measured
    return PER_RUN + PER_TEXT[ranker] * texts


def pool_seconds(documents: int, cells: int, seeds: int) -> float:
    """Seconds that simulating and measuring a method takes.

    Args:
        documents: of all topics' pools.
        cells: runs times topics times depth.
        seeds: simulations.
    """
    return seeds * (PER_JUDGEMENT * documents + PER_CELL * cells)
