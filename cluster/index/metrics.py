"""Records the metrics of a negative index."""

from __future__ import annotations

from collections.abc import Mapping

from cluster.output.throttle import Throttle
from cluster.telemetry.metrics import EVERY, ThrottledCounter, record


class IndexMetrics:
    """Metrics of one index. Answers come with every step of the trainer and are recorded every few seconds.

    Args:
        tags: the run and the function that it serves.
        every: seconds.
    """

    def __init__(self, tags: Mapping[str, str], every: float = EVERY) -> None:
        self.tags, self._throttle = tags, Throttle(every)
        self._queries = ThrottledCounter("pyrite_index_queries_total", tags, every)
        self._guarded = ThrottledCounter("pyrite_index_guarded_documents_total", tags, every)

    def answered(self, queries: int, version: int, age: int) -> None:
        """Some queries were answered from a version of this age in steps."""
        self._queries.add(queries)
        if self._throttle.due():
            record("pyrite_index_version_number", version, self.tags)
            record("pyrite_index_age_steps", age, self.tags)

    def built(self, seconds: float) -> None:
        """A version is finished."""
        record("pyrite_index_build_seconds", seconds, self.tags)

    def guarded(self, documents: int) -> None:
        """The guard dropped some documents."""
        if documents:
            self._guarded.add(documents)
