"""Declares the options that several verbs share."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pyrite.cluster.config.schema.kinds import Config, Count, Name, Natural, PartConfig


class CommandConfig(Config):
    """Options of commands that leave a folder, and may run on a cluster."""

    out: Name | None = None
    """A folder or URI. null: outputs/VERB-<time>."""
    resume: Literal["auto"] | None = None
    """auto: start, or continue with what out= holds; the command is given again as it was."""
    address: str | None = None
    """The address of a Ray cluster. null: RAY_ADDRESS, or a local one that starts by itself."""
    dashboard: bool = True
    """Start the dashboard with a local Ray."""


class ManyRunsConfig(CommandConfig):
    """Options that studies and pooling studies share: how their runs are spread, followed and compared."""

    track: dict[str, PartConfig] = {}
    """Where numbers of runs are reported too: tensorboard, mlflow, wandb."""
    retries: Natural = 1
    """Retries of a run or method that failed, before it is reported."""
    concurrent: Count | None = None
    """Runs or methods at once. null: as many as the cluster has room for."""
    renew_every: Annotated[int | float, Field(gt=0)] | None = 60
    """Seconds after which report.html is written again while it runs. null: only at the end."""
    local: bool | Literal["auto"] = "auto"
    """true: run in this process, without Ray; false: never; auto: if that is quicker than Ray's start."""
