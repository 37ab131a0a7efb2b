"""Describes a pooling study as the user asked for it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from cluster.output.storage import Storage
from cluster.plan.pool_methods import Variant


@dataclass(frozen=True)
class PoolPlan:
    """What the user asked for.

    Args:
        config: of conf/pool.yaml, composed.
        arguments: the overrides that made it.
        variants: the methods to compare.
        storage: where it goes.
    """

    config: dict[str, Any]
    arguments: list[str]
    variants: list[Variant]
    storage: Storage

    @property
    def command(self) -> str:
        """What starts it, for people to copy."""
        return shlex.join(["pyrite", "pool", *self.arguments])
