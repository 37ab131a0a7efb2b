"""Says which functions of a configuration rank by BM25 in shards while rankers train."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

BM25 = "sampling.retrieval.bm25.Bm25Function"


def bm25_in_shards(config: Mapping[str, Any]) -> list[str]:
    """Names of the functions whose lists shard actors serve."""
    sharded = _sharded(config)
    return [] if sharded and lists_come_first(config) else sharded


def listed_from_shards(config: Mapping[str, Any]) -> list[str]:
    """Names of the functions in shards whose lists are made before the training nevertheless."""
    sharded = _sharded(config)
    return sharded if sharded and lists_come_first(config) else []


def lists_come_first(config: Mapping[str, Any]) -> bool:
    """Whether lists are needed before the training: a guard goes over them, a teacher scores them, an agent sees them.

    Shards are then searched one by one, where the other parts are made.
    """
    guard = config["sampling"]["guard"]
    guarded = any(guard.get(margin) is not None for margin in ("absolute", "relative", "ceiling"))
    agents = [config[part] for part in ("policy", "selector") if part in config]
    return guarded or bool(config.get("teacher")) or "state" in config or any("checkpoint" in each for each in agents)


def _sharded(config: Mapping[str, Any]) -> list[str]:
    functions = config["function"].items()
    return [name for name, node in functions if node["_target_"] == BM25 and node.get("shards", 1) > 1]
