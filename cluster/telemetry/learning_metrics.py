"""Records the metrics of a learning."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from cluster.output.throttle import Throttle
from cluster.telemetry.metrics import EVERY, record

LAST = 32
"""Number of recent episodes whose mean is recorded."""
SHARE = "share:"


class LearningMetrics:
    """Counts the episodes of the agent and of the random baseline."""

    def __init__(self, study: str, known: int = 0, every: float = EVERY) -> None:
        self.study, self._known, self._throttle = study, known, Throttle(every)

    def record(self, rows: Sequence[Mapping[str, Any]], last: bool = False) -> None:
        """Record the current values, if the interval has passed."""
        if not self._throttle.due() and not last:
            return
        fresh, self._known = rows[self._known :], len(rows)
        for agent in dict.fromkeys(str(row["agent"]) for row in rows):
            ended = [row for row in fresh if row["agent"] == agent]
            tags = {"study": self.study, "agent": agent}
            record("pyrite_learning_episodes_total", len(ended), tags)
            record("pyrite_learning_steps_total", sum(row["steps"] for row in ended), tags)
            recent = [row for row in rows if row["agent"] == agent][-LAST:]
            record("pyrite_learning_return_value", _mean(recent, "return"), tags)
            record("pyrite_learning_validation_value", _mean(recent, "validation"), tags)
            for name in dict.fromkeys(key for row in recent for key in row if key.startswith(SHARE)):
                action = {**tags, "action": name.removeprefix(SHARE)}
                record("pyrite_learning_action_ratio", _mean(recent, name), action)


def _mean(rows: Sequence[Mapping[str, Any]], name: str) -> float:
    known = [float(row[name]) for row in rows if name in row and math.isfinite(row[name])]
    return sum(known) / len(known) if known else math.nan
