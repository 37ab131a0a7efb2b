"""Declares what hands out the runs of a study, one after another; Ray Tune and this process ask it alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

FINISHED = "FINISHED"
"""No further run will come: Ray Tune's own word for it."""


class RunSource(ABC):
    """Hands out runs. Each is a mapping with a `name`."""

    @abstractmethod
    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """The next run as `{"run": …}`; None to be asked again when one has ended; `FINISHED` when there are no more.

        Args:
            trial_id: under which the run's end will be told.
        """

    @abstractmethod
    def on_trial_complete(self, trial_id: str) -> None:
        """A run has ended, well or not."""

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune pickles its searcher to restore an experiment; a study that is resumed is planned again
