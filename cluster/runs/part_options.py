"""Reads from a configuration what its shared parts depend on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyrite.cluster.config.agents import checkpoint_of, has_agent
from pyrite.cluster.config.build import build
from pyrite.cluster.config.groups import option
from pyrite.cluster.runs.agent_file import read_agent
from pyrite.ranking.part import options_of

if TYPE_CHECKING:
    from pyrite.ranking.tokenization import Tokenization
    from pyrite.rl.state import StateOptions


def observed_functions(config: dict[str, Any]) -> list[str]:
    """Return the functions whose candidates an agent's states describe; none if there is no agent or no such state."""
    return [*config["function"]] if checkpoint_of(config) or "state" in config else []


def state_of(config: dict[str, Any]) -> StateOptions:
    """Return the options of the agent's states."""
    if checkpoint := checkpoint_of(config):
        return read_agent(checkpoint).state
    return build(config["state"], trust="composed")


def validation_origins(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the origins of the validation. The first has the name "": it selects the best epoch."""
    given = config["validation"]["origin"]
    leading, *others = [given] if isinstance(given, str) else given
    return {"": leading} | dict(zip(others, others, strict=True))


def validation_node(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the options of an origin of the validation, which need not be one of the test."""
    return config["origin"].get(name) or option("origin", name)[name]


def tokenization_of(config: dict[str, Any]) -> Tokenization | None:
    """Return the tokenization of the configured ranker; None if it reads words."""
    ranker = build(config["ranker"], trust="composed")
    return ranker.tokenization(**options_of(ranker))


BM25 = "pyrite.sampling.retrieval.bm25.BM25"


def bm25_in_shards(config: Mapping[str, Any], listed: bool = False) -> list[str]:
    """Return the names of the functions in shards whose lists actors serve or, if `listed`, are made before that.

    They are made before the training if a guard, a teacher or an agent needs them: the shards are then searched one by
    one, in the process that makes the other parts.
    """
    functions = config["function"].items()
    sharded = [name for name, node in functions if node["_target_"] == BM25 and node.get("shards", 1) > 1]
    return sharded if sharded and _needs_lists(config) == listed else []


def _needs_lists(config: Mapping[str, Any]) -> bool:
    """Return whether a guard, a teacher or an agent needs the lists of functions before the training."""
    guarded = any(config["guard"].get(margin) is not None for margin in ("absolute", "relative", "ceiling"))
    return guarded or has_agent(config) or bool(config.get("teacher"))
