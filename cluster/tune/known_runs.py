"""Hands Ray Tune, one by one, the runs that are known before a study begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ray.tune.search import Searcher


class KnownRuns(Searcher):
    """Each run once, in order.

    Tune's own grid search copies the whole list for each run that it takes from it, and keeps all of it in its state.

    Args:
        runs: mappings with a `name`.
    """

    def __init__(self, runs: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(metric="best", mode="max")
        self._waiting = list(reversed(runs))

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune pickles its searcher to restore an experiment; a study that is resumed is planned again

    def suggest(self, trial_id: str) -> Any:
        """Tune asks for the next run."""
        return {"run": self._waiting.pop()} if self._waiting else Searcher.FINISHED

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Nothing follows from a result."""

    def save(self, checkpoint_path: str) -> None:
        """Nothing to keep."""

    def restore(self, checkpoint_path: str) -> None:
        """See `save`."""
