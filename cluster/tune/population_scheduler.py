"""Hears what the runs of populations reach, for their source to compare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cluster.plan.sweep import Planned
from cluster.tune.search_scheduler import METRIC, SearchScheduler


class PopulationScheduler(SearchScheduler):
    """Lets every run go on: some are stopped between two parts, by their source (`PopulationRuns`).

    Args:
        curves: validation by run and epoch, of earlier commands.
    """

    def __init__(self, curves: Mapping[str, Mapping[int, float]] | None = None) -> None:
        super().__init__(None)
        self.curves = {name: dict(curve) for name, curve in (curves or {}).items()}

    def enter(self, runs: Iterable[Planned]) -> None:
        """Nothing is decided run by run."""

    def reached(self, name: str, epoch: int, validation: float) -> dict[str, bool]:
        self.curves.setdefault(name, {})[epoch] = validation if validation == validation else 0.0
        return {name: True}


def curves_of(events: Iterable[Mapping[str, Any]]) -> dict[str, dict[int, float]]:
    """What a folder's log has of runs: validation by epoch, the last that was told of each."""
    found: dict[str, dict[int, float]] = {}
    for event in events:
        if event["event"] == "run reached" and METRIC in event.get("numbers", {}):
            found.setdefault(event["run"], {})[int(event["step"])] = float(event["numbers"][METRIC] or 0.0)
    return found
