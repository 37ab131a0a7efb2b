"""Reads and writes the file of a learned agent: its network's weights, and the states that it must be shown."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from torch import Tensor

from pyrite.ranking.checkpoint import from_bytes, to_bytes
from pyrite.ranking.errors import BadInput, refuse
from pyrite.rl.networks import PolicyNetwork, described
from pyrite.rl.state import StateOptions

FORMAT = "pyrite-agent-1"
OF_A_MIXTURE = "pyrite-mixture-1"
"""The format of a mixture of version 0.2, which searched shares of functions."""


@dataclass(frozen=True)
class TrainedAgent:
    """A learned agent: the result of `pyrite learn`, and the input of `policy=learned`.

    Args:
        functions: the names of the actions, in their order.
        decision_every: number of batches that an action was held for, or `epoch`.
        pairs, dimension: |b| of its observations, and d of φ.
        network: the description of its network (see `pyrite.rl.networks.described`).
        documents: s_d, candidates per query if its actions are documents; None if they are functions.
        facts: how it was learned, for reports.
        built_from: digests of the data and code that it was learned from, by name; empty if unknown.
    """

    functions: list[str]
    state: StateOptions
    decision_every: int | str
    pairs: int
    dimension: int
    network: dict[str, Any]
    weights: dict[str, Tensor]
    documents: int | None
    facts: dict[str, Any]
    built_from: dict[str, str] = field(default_factory=dict)

    def actor(self) -> PolicyNetwork:
        """Return the frozen network."""
        return described(self.network, self.weights)

    def to_bytes(self) -> bytes:
        """Return it as a safetensors file."""
        return to_bytes({"agent": FORMAT, **vars(self) | {"state": asdict(self.state)}})

    @classmethod
    def from_bytes(cls, content: bytes, where: str) -> TrainedAgent:
        """Read the file that `to_bytes` wrote.

        Raises:
            BadInput: if it is another file, or an older version wrote it with other options.
        """
        state = from_bytes(content, where)
        written = state.pop("agent", None) if isinstance(state, dict) else None
        remedy = "search shares by `pyrite study search=optuna policy=schedule` (docs/guide/learning.md)"
        refuse(written == OF_A_MIXTURE, "is a mixture of version 0.2, which this version can't use", where, remedy)
        refuse(written != FORMAT, "is not a learned agent", where, "name the folder of a `pyrite learn`")
        try:
            return cls(**state | {"state": StateOptions(**state["state"])})
        except (TypeError, KeyError):
            raise BadInput("is an agent of another version of Pyrite", where, "learn it again") from None
