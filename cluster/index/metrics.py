"""What a negative index tells."""

from __future__ import annotations

from collections.abc import Mapping

from cluster.telemetry.instruments import EVERY, Count, Pace, tell


class IndexMetrics:
    """Figures of one index. Answers come with every step of the trainer and are told every few seconds.

    Args:
        tags: the run and the function that it serves.
        every: seconds.
    """

    def __init__(self, tags: Mapping[str, str], every: float = EVERY) -> None:
        self.tags, self._pace = tags, Pace(every)
        self._queries = Count("pyrite_index_queries_total", tags, every)
        self._guarded = Count("pyrite_index_guarded_documents_total", tags, every)

    def answered(self, queries: int, version: int, age: int) -> None:
        """Some queries were answered from a version of this age in steps."""
        self._queries.add(queries)
        if self._pace.due():
            tell("pyrite_index_version_number", version, self.tags)
            tell("pyrite_index_age_steps", age, self.tags)

    def built(self, seconds: float) -> None:
        """A version is finished."""
        tell("pyrite_index_build_seconds", seconds, self.tags)

    def guarded(self, documents: int) -> None:
        """The guard dropped some documents."""
        if documents:
            self._guarded.add(documents)
