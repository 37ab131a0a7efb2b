"""Says whose agent a configuration acts by, which part is still to be learned, and what an agent can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rl.environment import Actions


def checkpoint_of(config: dict[str, Any]) -> str | None:
    """The folder whose agent a configuration uses, as its policy or as its selector; None where it uses none."""
    for part in ("policy", "selector"):
        if config[part].get("checkpoint"):
            return str(config[part]["checkpoint"])
    return None


def learner_of(config: dict[str, Any]) -> str | None:
    """Which part of a run acts by an agent that is still to be learned: policy, selector, or None."""
    for part in ("policy", "selector"):
        if "checkpoint" in config[part] and not config[part]["checkpoint"]:
            return part
    return None


def actions_of(config: dict[str, Any]) -> Actions:
    """What the agent of a learning can do."""
    from rl.document_actions import DocumentActions
    from rl.environment import FunctionActions

    documents = config["actions"]["documents"]
    if documents is None:
        return FunctionActions(list(config["function"]))
    return DocumentActions(documents, config["training"]["batch_size"], config["sampling"]["negatives"])
