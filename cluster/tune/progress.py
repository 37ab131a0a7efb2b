"""Defines what a trial reports to Ray Tune, and how far a report says that it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STEP = "epoch"
"""Says how far a trial is, whatever it counts; `fold` and `max_epochs` beside it."""
AGAIN = "again"
"""Says why a trial is tried again in its own process."""
FAILED = "failed"
"""Says why a trial has failed for good; its last report."""
UNWRITABLE = "unwritable"
"""Of a failed trial: what `Unwritable` is made of again, where the output can't be written."""


def reached_by(result: Mapping[str, Any]) -> int:
    """How far a trial is, over all of its folds; 0 before its first step."""
    return int(result.get("fold", 0) * result["max_epochs"] + result[STEP]) if STEP in result else 0
