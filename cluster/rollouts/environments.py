"""Makes the environments of a learning from its configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyrite.cluster.config.agents import actions_of
from pyrite.cluster.config.build import build
from pyrite.cluster.executors.ray_tasks import opened
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.assemble import assemble, state_tables
from pyrite.ranking.training import RankerTraining
from pyrite.rl.environment import SamplingEnvironment
from pyrite.rl.rewards import Reward
from pyrite.rl.state import StateTables
from pyrite.sampling.sampler import Sampler


@dataclass(frozen=True)
class Environments:
    """Makes environments in the process that steps them, from parts in Ray's object store or, without, in the cache."""

    config: dict[str, Any]
    shared: Mapping[str, Any] | None = None

    def parts(self) -> dict[str, Any]:
        """Return the parts that rankers and states read; all environments of this process share them."""
        return Artifacts().parts(self.config) if self.shared is None else opened(self.shared)

    def __call__(self, numbers: Sequence[int]) -> list[SamplingEnvironment]:
        """Return the environments of these numbers, which determine their seeds."""
        config, parts, actions = self.config, self.parts(), actions_of(self.config)
        tables = state_tables_of(config, parts)

        def start(sequence: np.random.SeedSequence) -> tuple[RankerTraining, Sampler]:
            # A cross-validated collection's first fold; such an agent is measured on other collections only.
            return assemble(config, dict(parts), 0, sequence, actions.policy())

        return [
            SamplingEnvironment(
                start,
                tables,
                actions,
                build(config["reward"], trust="composed"),
                build(config["validation_sample"], trust="composed"),
                config["seed"],
                number,
                gamma_of(config),
                config["decision_every"],
            )
            for number in numbers
        ]


def state_tables_of(config: dict[str, Any], parts: Mapping[str, Any]) -> StateTables:
    """Return the tables that the states of a learning are looked up in."""
    return state_tables(
        dict(parts),
        build(config["state"], trust="composed"),
        config["training"]["batch_size"],
        list(config["function"]),
    )


def gamma_of(config: dict[str, Any]) -> float:
    """Return γ: the configured value, or the default of the reward."""
    reward: Reward = build(config["reward"], trust="composed")
    return reward.gamma if config["gamma"] is None else float(config["gamma"])
