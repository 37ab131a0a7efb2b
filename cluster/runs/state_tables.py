"""Gives an agent the tables that it looks states up in, from a run's parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ranking.errors import BadInput
from rl.document_selector import LearnedSelector
from rl.mixture import MixtureAgent, MixturePolicy
from rl.policy import LearnedPolicy
from rl.state import StateOptions, StateTables
from rl.trained import TrainedAgent


def state_tables(parts: dict[str, Any], options: StateOptions, pairs: int, functions: Sequence[str]) -> StateTables:
    """What the states of all trainings look up, out of the parts of a configuration.

    Args:
        parts: of the configuration (`cluster.runs.artifacts`).
        options: how states are described.
        pairs: of a full batch.
        functions: names of the actions, in their order.
    """
    tables = {name: parts[f"similarity:{name}"] for name in functions}
    return StateTables(options, parts["compressed"], tables, pairs, parts.get("candidates"))


def equip(policy: Any, selector: Any, parts: dict[str, Any]) -> Any:
    """Give the part of a run that acts by a learned agent that agent.

    Returns:
        The policy: one of its own where the agent mixes functions.

    Raises:
        BadInput: where the agent was learned with word vectors of another length.
    """
    agent: TrainedAgent | MixtureAgent = parts["agent"]
    if isinstance(agent, MixtureAgent):
        return MixturePolicy(agent) if isinstance(policy, LearnedPolicy) else policy
    tables = state_tables(parts, agent.state, agent.pairs, agent.functions)
    if tables.compressed.dimension != agent.dimension:
        raise BadInput(
            f"the agent reads word vectors of {agent.dimension} dimensions, not {tables.compressed.dimension}",
            "vectors",
            "choose those that it was learned with",
        )
    for part in (policy, selector):
        if isinstance(part, LearnedPolicy | LearnedSelector):
            part.equip(agent, tables)
    return policy
