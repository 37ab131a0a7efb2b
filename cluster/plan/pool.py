"""Describes a pooling study as the user requested it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from cluster.output.storage import Storage
from cluster.plan.pool_methods import Variant


@dataclass(frozen=True)
class PoolPlan:
    """A pooling study as the user requested it.

    Args:
        config: conf/pool.yaml, composed.
        arguments: its overrides.
        variants: the methods to compare.
        storage: the output folder.
    """

    config: dict[str, Any]
    arguments: list[str]
    variants: list[Variant]
    storage: Storage

    @property
    def command(self) -> str:
        """The command that starts it, for users to copy."""
        return shlex.join(["pyrite", "pool", *self.arguments])
