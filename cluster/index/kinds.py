"""Says which functions of a configuration rank by BM25 in shards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

BM25 = "sampling.retrieval.bm25.Bm25Function"


def bm25_in_shards(config: Mapping[str, Any]) -> list[str]:
    """Names of the functions whose lists shard actors serve."""
    functions = config["function"].items()
    return [name for name, node in functions if node["_target_"] == BM25 and node.get("shards", 1) > 1]
