"""What the learning of an agent tells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from cluster.telemetry.instruments import EVERY, Pace, tell

LAST = 32
"""Episodes whose mean is told."""
SHARE = "share:"


class LearningMetrics:
    """Counts the episodes of the agent that learns and of the random one beside it.

    Args:
        study: name of the learning.
        known: episodes that had ended before, which are not counted.
        every: seconds between two tellings.
    """

    def __init__(self, study: str, known: int = 0, every: float = EVERY) -> None:
        self.study, self._known, self._pace = study, known, Pace(every)

    def tell(self, rows: Sequence[Mapping[str, Any]], last: bool = False) -> None:
        """Tell how it goes, if it is time.

        Args:
            rows: of all episodes that have ended (`cluster.output.episodes.row`).
            last: it has ended: tell it now.
        """
        if not self._pace.due() and not last:
            return
        fresh, self._known = rows[self._known :], len(rows)
        for agent in dict.fromkeys(str(row["agent"]) for row in rows):
            ended = [row for row in fresh if row["agent"] == agent]
            tags = {"study": self.study, "agent": agent}
            tell("pyrite_learning_episodes_total", len(ended), tags)
            tell("pyrite_learning_steps_total", sum(row["steps"] for row in ended), tags)
            recent = [row for row in rows if row["agent"] == agent][-LAST:]
            tell("pyrite_learning_return_value", _mean(recent, "return"), tags)
            tell("pyrite_learning_validation_value", _mean(recent, "validation"), tags)
            for name in dict.fromkeys(key for row in recent for key in row if key.startswith(SHARE)):
                action = {**tags, "action": name.removeprefix(SHARE)}
                tell("pyrite_learning_action_ratio", _mean(recent, name), action)


def _mean(rows: Sequence[Mapping[str, Any]], name: str) -> float:
    known = [float(row[name]) for row in rows if name in row and math.isfinite(row[name])]
    return sum(known) / len(known) if known else math.nan
