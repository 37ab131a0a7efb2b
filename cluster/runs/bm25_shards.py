"""Selects the functions of a configuration that rank by BM25 in shards while rankers train."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

BM25 = "sampling.retrieval.bm25.Bm25Function"


def bm25_in_shards(config: Mapping[str, Any]) -> list[str]:
    """Return the names of the functions whose lists are served by shard actors."""
    sharded = _sharded(config)
    return [] if sharded and lists_come_first(config) else sharded


def listed_from_shards(config: Mapping[str, Any]) -> list[str]:
    """Return the names of the functions in shards whose lists are made before the training."""
    sharded = _sharded(config)
    return sharded if sharded and lists_come_first(config) else []


def lists_come_first(config: Mapping[str, Any]) -> bool:
    """Return whether a guard, a teacher or an agent needs lists before the training.

    The shards are then searched one by one, in the process that makes the other parts.
    """
    guard = config["sampling"]["guard"]
    guarded = any(guard.get(margin) is not None for margin in ("absolute", "relative", "ceiling"))
    agents = [config[part] for part in ("policy", "selector") if part in config]
    return guarded or bool(config.get("teacher")) or "state" in config or any("checkpoint" in agent for agent in agents)


def _sharded(config: Mapping[str, Any]) -> list[str]:
    functions = config["function"].items()
    return [name for name, node in functions if node["_target_"] == BM25 and node.get("shards", 1) > 1]
