"""Declares the options of `pyrite learn`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pyrite.cluster.config.schema.command import CommandConfig
from pyrite.cluster.config.schema.kinds import Config, Count, Natural, PartConfig, part
from pyrite.cluster.config.schema.run import RunConfig


class ActionsConfig(Config):
    documents: Annotated[int, Field(ge=2)] | None
    imitate: PartConfig | None


class LearningConfig(RunConfig, CommandConfig):
    actions: ActionsConfig
    """What the agent chooses: functions, or documents."""
    agent: PartConfig
    reward: PartConfig
    state: PartConfig
    """What the agent sees: the paper's numbers of a batch."""
    until: PartConfig | None = None
    """Learning ends after `episodes`; converged: before, once it gains no more."""
    track: dict[str, PartConfig] = {}
    """Where numbers are reported too: tensorboard, mlflow, wandb."""
    gamma: Annotated[float, Field(gt=0, le=1)] | None = None
    """γ, the discount of a decision. null: 1 with reward=diff, 0.995 with others."""
    decision_every: Count | Literal["epoch"] = 1
    """Batches that an action is held for; or epoch: one decision per epoch."""
    episodes: Count
    """Episodes that the agent learns from; each is the training of a fresh ranker."""
    copies: Count = 8
    """Copies of the environment, all at once. The result depends on them and not on the workers."""
    workers: Natural | None = None
    """Processes that step the copies, each with resources.cpu and resources.gpu. null: as many as there is room for;
    0: this process."""
    validation_sample: PartConfig = part("pyrite.rl.rewards.ValidationSampleOptions")
    """Validation queries that the reward is measured on. A measurement costs as much as three batches at
    scale=small."""
    random_baseline: Natural = 16
    """Episodes of the random agent to compare with. 0: none."""
    save_every: Annotated[float, Field(ge=0)] = 60
    """Seconds between two states that are kept, to continue after an interrupt."""
