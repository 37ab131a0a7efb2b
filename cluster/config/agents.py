"""Finds the agent that a configuration uses, the part that must be learned first, and the actions of a learning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyrite.rl.environment import Actions


@dataclass(frozen=True)
class AgentNeeds:
    """Declares what the runs of an agent must have.

    Args:
        functions: the names of the functions that it chooses among.
        pairs: the largest batch that it reads.
        documents: how many documents per query it picks from; None if it chooses functions.
    """

    functions: list[str]
    pairs: int
    documents: int | None


def needs_of_agent(config: Mapping[str, Any]) -> AgentNeeds:
    """Return what the agent of a learning will need."""
    return AgentNeeds(list(config["function"]), config["training"]["batch_size"], config["actions"]["documents"])


def checkpoint_of(config: dict[str, Any]) -> str | None:
    """Return the folder of the agent that a policy or a selector uses; None if there is none."""
    checkpoints = (config[part].get("checkpoint") for part in ("policy", "selector"))
    return next((str(checkpoint) for checkpoint in checkpoints if checkpoint), None)


def has_agent(config: Mapping[str, Any]) -> bool:
    """Return whether an agent chooses negatives, or is learned."""
    return "state" in config or any("checkpoint" in (config.get(part) or {}) for part in ("policy", "selector"))


def learner_of(config: dict[str, Any]) -> str | None:
    """Return the part whose agent must be learned first: policy, selector, or None."""
    for part in ("policy", "selector"):
        if "checkpoint" in config[part] and not config[part]["checkpoint"]:
            return part
    return None


def actions_of(config: dict[str, Any]) -> Actions:
    """Return the actions that the agent of a learning chooses from."""
    from pyrite.rl.document_selector import DocumentActions
    from pyrite.rl.environment import FunctionActions

    documents = config["actions"]["documents"]
    if documents is None:
        return FunctionActions(list(config["function"]))
    of_functions = [config["negatives"].get(name) for name in config["function"]]  # one or none
    picks = next(filter(None, of_functions), config["sampling"]["negatives"])
    return DocumentActions(documents, config["training"]["batch_size"], picks)
