"""Finds and reads the file of a learned agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cluster.config.agents import checkpoint_of
from cluster.output.storage import Storage
from ranking.checkpoint import from_bytes
from ranking.errors import BadInput

if TYPE_CHECKING:
    from rl.mixture import MixtureAgent
    from rl.trained import TrainedAgent

FILE = "agent.safetensors"


def documents_of(config: dict[str, Any]) -> int | None:
    """s_d, where a configuration's agent picks documents; None where it chooses functions, or there is no agent."""
    if checkpoint := checkpoint_of(config):
        return read_agent(checkpoint).documents
    documents: int | None = config.get("actions", {}).get("documents")
    return documents


def has_agent(checkpoint: str) -> bool:
    """Whether there is a learned agent in a folder."""
    return FILE in Storage(checkpoint).names()


def agent_content(checkpoint: str) -> bytes:
    """The bytes of a learned agent.

    Raises:
        BadInput: where there is none.
    """
    content = Storage(checkpoint).read(FILE)
    if content is None:
        raise BadInput(f"there is no {FILE}", checkpoint, "name the folder of a `pyrite learn` that has begun to learn")
    return content


def read_agent(checkpoint: str) -> TrainedAgent | MixtureAgent:
    """The agent of a folder: one that chooses functions or documents, or one that mixes functions."""
    from rl.mixture import FORMAT as MIXTURE
    from rl.mixture import MixtureAgent
    from rl.trained import TrainedAgent

    content, where = agent_content(checkpoint), f"{checkpoint}/{FILE}"
    state = from_bytes(content, where)
    mixes = isinstance(state, dict) and state.get("agent") == MIXTURE
    return MixtureAgent.from_bytes(content, where) if mixes else TrainedAgent.from_bytes(content, where)


def agent_of(config: dict[str, Any]) -> TrainedAgent | MixtureAgent | None:
    """The agent that a run acts by; None where it has none, or it is still to be learned."""
    checkpoint = checkpoint_of(config)
    return None if checkpoint is None else read_agent(checkpoint)
