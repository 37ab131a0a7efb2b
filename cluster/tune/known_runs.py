"""Hands out, one by one, the runs that are known before a study begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cluster.tune.run_source import FINISHED, RunSource


class KnownRuns(RunSource):
    """Each run once, in order.

    Tune's own grid search copies the whole list for each run that it takes from it, and keeps all of it in its state.

    Args:
        runs: mappings with a `name`.
    """

    def __init__(self, runs: Sequence[Mapping[str, Any]]) -> None:
        self._waiting = list(reversed(runs))

    def suggest(self, trial_id: str) -> Any:
        return {"run": self._waiting.pop()} if self._waiting else FINISHED

    def on_trial_complete(self, trial_id: str) -> None:
        """Nothing follows from a result."""
