"""Finds and reads the file of a learned agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyrite.cluster.config.agents import checkpoint_of, has_agent
from pyrite.cluster.output.storage import Storage
from pyrite.ranking.errors import BadInput, refuse

if TYPE_CHECKING:
    from pyrite.ranking.collections.collection import Collection
    from pyrite.rl.trained import TrainedAgent

FILE = "agent.safetensors"


def documents_of(config: dict[str, Any]) -> int | None:
    """Return s_d if the agent of a configuration picks documents; None if it chooses functions or there is no agent."""
    if checkpoint := checkpoint_of(config):
        return read_agent(checkpoint).documents
    return config.get("actions", {}).get("documents")


def holds_agent(checkpoint: str) -> bool:
    """Return whether a folder holds a learned agent."""
    return FILE in Storage(checkpoint).names()


def agent_content(checkpoint: str) -> bytes:
    """Return the bytes of a learned agent; refuse a folder without one."""
    content = Storage(checkpoint).read(FILE)
    if content is None:
        raise BadInput(f"there is no {FILE}", checkpoint, "name the folder of a `pyrite learn` that has begun to learn")
    return content


def read_agent(checkpoint: str) -> TrainedAgent:
    """Return the agent in a folder, which chooses functions or documents."""
    from pyrite.rl.trained import TrainedAgent

    return TrainedAgent.from_bytes(agent_content(checkpoint), f"{checkpoint}/{FILE}")


def refuse_folds(config: Mapping[str, Any], collection: Collection, learned_on: Mapping[str, str]) -> None:
    """Refuse an agent on its own collection if that is cross-validated: other folds test the queries that it learned
    from.

    Args:
        learned_on: the fingerprints of the collections of agents that are learned first, by their folders.
    """
    if not (has_agent(config) and collection.queries["split"].is_null().all()):
        return
    checkpoint = checkpoint_of(dict(config))
    learned = collection.fingerprint
    if checkpoint is not None:
        learned = learned_on.get(checkpoint) or read_agent(checkpoint).facts.get("fingerprint", learned)
    what = "it has no split and is cross-validated, and an agent would learn from queries that other folds test"
    remedy = "give it a split, or use an agent of another collection (docs/guide/learning.md)"
    refuse(learned == collection.fingerprint, what, collection.name, remedy)


def agent_of(config: dict[str, Any]) -> TrainedAgent | None:
    """Return the agent of a run; None if it has none, or the agent is not learned yet."""
    checkpoint = checkpoint_of(config)
    return None if checkpoint is None else read_agent(checkpoint)
