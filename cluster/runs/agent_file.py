"""Finds and reads the file of a learned agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyrite.cluster.config.agents import checkpoint_of
from pyrite.cluster.output.storage import Storage
from pyrite.ranking.errors import BadInput

if TYPE_CHECKING:
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


def agent_of(config: dict[str, Any]) -> TrainedAgent | None:
    """Return the agent of a run; None if it has none, or the agent is not learned yet."""
    checkpoint = checkpoint_of(config)
    return None if checkpoint is None else read_agent(checkpoint)
