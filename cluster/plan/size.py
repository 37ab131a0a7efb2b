"""Estimates how long a plan takes in this process, to decide whether starting Ray would take longer.

The rates were measured on one core of a server of 2023 and rounded. An error of half does no harm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pyrite.ranking.cores import cores

RAY_START = 10.0
"""Seconds from `ray.init` to the first step of the first run, including its process and imports."""
PER_TEXT = {"static": 2e-5, "feed_forward": 5e-5, "dssm": 5e-5, "match_pyramid": 4e-4}
"""Seconds to score a document for a query, at the usual width. Pretrained rankers are never this fast."""
PER_RUN = 0.15
"""Seconds per run for building, saving and writing."""
PER_JUDGEMENT, PER_CELL = 2e-6, 2.5e-7
"""Seconds to simulate a judgement, and to measure a document of a run at a few budgets."""
TURNS = 0.8
"""Share of a pool's work that threads do one after another, because of Python's global lock."""


def saved(seconds: float | None, processes: int = 1) -> float:
    """Return how many seconds all cores of this machine save compared with the processes that work without Ray.

    >>> saved(None, processes=cores())
    0.0

    Args:
        seconds: the seconds of all work on one core; None if they are unknown.
        processes: processes that a command uses without Ray, at most one per core.

    Returns:
        0 if there are no more cores than processes, and infinity if the seconds are unknown otherwise.
    """
    here = min(processes, cores())
    if here == cores():
        return 0.0
    return math.inf if seconds is None else seconds * (1 / here - 1 / cores())


def run_seconds(config: Mapping[str, Any], ranker: str, queries: int, judgements: int) -> float | None:
    """Return an upper bound of the seconds that a run takes; None if it is unknown."""
    if ranker not in PER_TEXT:
        return None
    limits = config["limits"]
    split = {name: min(queries, limits[name] or queries) for name in ("train", "dev", "test")}
    examples = min(judgements * split["train"] / max(queries, 1), limits["examples"] or judgements)
    in_batch = [*config["function"]] == ["in_batch"]
    read = 2 + (0 if in_batch else config["sampling"]["negatives"])  # the documents of the batch are read anyway
    trained = examples * read * 3  # forward, backward, and what the selector scores
    validated = split["dev"] * 100 / 3
    measured = split["test"] * 100 * len(config["origin"]) / 3
    texts = config["training"]["max_epochs"] * (trained + validated) + measured
    return PER_RUN + PER_TEXT[ranker] * texts


def pool_seconds(documents: int, cells: int, seeds: int) -> float:
    """Return the seconds that simulating and measuring a method takes; `cells` are runs × topics × depth."""
    return seeds * (PER_JUDGEMENT * documents + PER_CELL * cells)
