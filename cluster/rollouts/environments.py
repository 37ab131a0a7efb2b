"""Makes copies of the environment from a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from cluster.config.agents import actions_of
from cluster.config.build import build
from cluster.runs.artifacts import Artifacts
from cluster.runs.assemble import assemble
from cluster.runs.state_tables import state_tables
from ranking.training import RankerTraining
from rl.copies import Copies
from rl.environment import SamplingEnvironment
from rl.rewards import Reward
from rl.state import StateTables
from sampling.sampler import Sampler


@dataclass(frozen=True)
class Environments:
    """Makes copies of the environment, in whichever process they are stepped.

    Args:
        config: of a learning.
        shared: its parts in Ray's object store, by name; None: they are read from the cache, or made.
        offset: added to the number of each copy, so that other copies draw other seeds.
    """

    config: dict[str, Any]
    shared: Mapping[str, Any] | None = None
    offset: int = 0

    def parts(self) -> dict[str, Any]:
        """What rankers and states need; read-only, and one copy of it for all that this process steps."""
        import ray

        if self.shared is None:
            return Artifacts().parts(self.config)
        return dict(zip(self.shared, ray.get(list(self.shared.values())), strict=True))

    def __call__(self, first: int, count: int) -> Copies:
        """The copies first … first + count − 1, counted from `offset`."""
        return self.copies(self.parts(), self.offset + first, count)

    def copies(self, parts: Mapping[str, Any], first: int, count: int) -> Copies:
        """The copies first … first + count − 1 over parts that are there."""
        torch.set_num_threads(max(1, int(self.config["resources"]["cpu"])))
        config, tables, actions = self.config, state_tables_of(self.config, parts), actions_of(self.config)

        def start(sequence: np.random.SeedSequence) -> tuple[RankerTraining, Sampler]:
            # Cross-validated collections are learned on their first fold.
            return assemble(config, dict(parts), 0, sequence, actions.policy())

        return Copies(
            [
                SamplingEnvironment(
                    start,
                    tables,
                    actions,
                    build(config["reward"]),
                    build(config["validation_sample"]),
                    config["seed"],
                    copy,
                    gamma_of(config),
                    config["decision_every"],
                )
                for copy in range(first, first + count)
            ]
        )


def state_tables_of(config: dict[str, Any], parts: Mapping[str, Any]) -> StateTables:
    """What the states of a learning look up."""
    return state_tables(dict(parts), build(config["state"]), config["training"]["batch_size"], list(config["function"]))


def gamma_of(config: dict[str, Any]) -> float:
    """γ: the user's, or the one that the reward is meant to be learned with."""
    reward: Reward = build(config["reward"])
    return reward.gamma if config["gamma"] is None else float(config["gamma"])


def spaces_of(config: dict[str, Any], parts: Mapping[str, Any]) -> tuple[spaces.Dict, spaces.Space[Any]]:
    """Observation and action space of a learning."""
    return state_tables_of(config, parts).space, actions_of(config).space
