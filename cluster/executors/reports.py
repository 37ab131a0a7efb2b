"""Names the entries of reports that executors read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STEP = "epoch"
"""How far a task is, in any unit. `fold` and `max_epochs` belong to it."""
VALUE = "validation"
"""What it has reached at that step."""
AGAIN, ERROR, FINAL = "again", "error", "final"
"""In reports to Ray Tune: the pickled error after which a body is run again, or with which it ended; the last one."""


def step_of(report: Mapping[str, Any]) -> int:
    """Return how far a task is over all of its folds; 0 before its first step."""
    return int(report.get("fold", 0) * report["max_epochs"] + report[STEP]) if STEP in report else 0
