"""What a negative index tells the dashboard."""

from __future__ import annotations

from collections.abc import Mapping

from ray.util.metrics import Counter, Gauge, Histogram

TAGS = ("run", "function")
SECONDS = [0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000, 10000]


class IndexMetrics:
    """Figures of one index, scraped as `ray_pyrite_index_…`.

    Args:
        tags: the run and the function that it serves.
    """

    def __init__(self, tags: Mapping[str, str]) -> None:
        self._version = Gauge("pyrite_index_version", "number of the version that is served", TAGS)
        self._age = Gauge("pyrite_index_age_steps", "steps of the trainer since the served weights were its own", TAGS)
        self._build = Histogram("pyrite_index_build_seconds", "seconds that a build took", SECONDS, TAGS)
        self._queries = Counter("pyrite_index_queries_total", "queries that were answered", TAGS)
        self._guarded = Counter("pyrite_index_guarded_total", "documents that the guard dropped from answers", TAGS)
        for metric in (self._version, self._age, self._build, self._queries, self._guarded):
            metric.set_default_tags(dict(tags))

    def answered(self, queries: int, version: int, age: int) -> None:
        """Some queries were answered from a version of this age in steps."""
        self._queries.inc(queries)
        self._version.set(version)
        self._age.set(age)

    def built(self, seconds: float) -> None:
        """A version is finished."""
        self._build.observe(seconds)

    def guarded(self, documents: int) -> None:
        """The guard dropped some documents."""
        if documents:
            self._guarded.inc(documents)
