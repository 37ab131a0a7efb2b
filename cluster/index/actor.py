"""Serves negatives from the newest version of an index while it builds the next: the index actor."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from pyrite.cluster.index.index_folder import IndexFolder, Publication
from pyrite.cluster.index.sharded_build import ShardedBuild
from pyrite.cluster.index.version_build import IndexBuild, IndexSpec
from pyrite.cluster.limits import SEARCH_TIMEOUT_S
from pyrite.cluster.output.throttle import Throttle
from pyrite.cluster.telemetry.metrics import EVERY, ThrottledCounter, record
from pyrite.ranking.index_versions import IndexVersion
from pyrite.sampling.retrieval.live_index import Answer

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class IndexReply:
    """The reply to a search: no answer if the requested version does not exist yet.

    `known` are the steps of all weights that the actor has built from or will build from.
    """

    answer: Answer | None
    known: frozenset[int]
    lost_shards: frozenset[int]


class NegativeIndexActor:
    """The versions of an index: one that is served, one that is being built, and those that its trainer still uses.

    Searches and publications run in separate threads, and the build in another one, whose work encoder actors do. A
    search keeps a reference to its version until it ends; a finished version replaces the one before in a single
    assignment.

    Ray restarts the actor if it dies and calls the constructor again. The constructor takes names and options only and
    opens the versions in the folder; the client sends weights that are not built yet again.

    Args:
        every: build each publication, in order, instead of only the newest.
    """

    def __init__(self, spec: IndexSpec, folder: str, every: bool) -> None:
        self.every = every
        self.folder = IndexFolder(Path(folder))
        self.build = (ShardedBuild if len(spec.ranges) > 1 else IndexBuild)(spec, self.folder)
        self.metrics = IndexMetrics(spec.tags)
        self._changed = threading.Condition()
        self._versions: dict[int, IndexVersion] = self.build.opened()
        self._pending: dict[int, Publication] = {}
        self._building: Publication | None = None
        self._read = -1  # step of the version that was read last
        self._failure: Exception | None = None
        self._closed = False
        threading.Thread(target=self._build_forever, name="build", daemon=True).start()

    @ray.method(concurrency_group="publishing")
    def publish(self, step: int, version: int | None, weights: Sequence[ray.ObjectRef]) -> None:
        """Take weights to build the next version from (see `Publication`). Known weights change nothing.

        The weights are in a list, so that they arrive as a reference.
        """
        self._publish(Publication.of(step, version, weights[0]))

    def _publish(self, publication: Publication) -> None:
        with self._changed:
            if self._closed or (publication.step, publication.digest) in self._publications():
                return
            if not self.every:
                if publication.step < max(self._steps(), default=-1):
                    return
                self._pending.clear()
            self._pending[publication.step] = publication
            self._changed.notify_all()

    @ray.method(concurrency_group="publishing")
    def restore(self, publications: Sequence[tuple[int, int | None, ray.ObjectRef]]) -> None:
        """Reset to exactly these publications: step, version and weights of each.

        All others came from a trainer that no longer exists.
        """
        kept = {step: Publication.of(step, version, ref) for step, version, ref in publications}
        with self._changed:
            self._read = -1
            self._pending = {step: pending for step, pending in self._pending.items() if kept.get(step) == pending}
            for step, index in list(self._versions.items()):
                if step not in kept or index.digest != kept[step].digest:
                    del self._versions[step]
                    self.build.remove(step)
            if self._building is not None and kept.get(self._building.step) != self._building:
                self._building = None  # the build continues, and its result is discarded
        for publication in kept.values():
            self._publish(publication)

    @ray.method(concurrency_group="reading")
    def search(
        self,
        queries: NDArray[np.int64],
        depth: int,
        step: int,
        exactly: int | None = None,
        least: int | None = None,
        vectors: NDArray[np.float32] | None = None,
        guarded: int = 0,
    ) -> IndexReply:
        """Return the best documents of each query.

        Args:
            exactly: answer from the version of this step only.
            least: answer from the version of this step or a later one.
            vectors: vectors of the queries [q, d]; None takes those of the version.
            guarded: documents that the guard has dropped since the last search.
        """
        index = self._version(exactly, least)
        self.metrics.guarded(guarded)
        if index is None:
            return IndexReply(None, self._steps(), self.build.lost)
        documents, scores = index.search(queries, depth, vectors)
        self.metrics.answered(len(queries), index.version, step - index.step)
        return IndexReply(Answer(documents, scores, index.version, index.step), self._steps(), self.build.lost)

    @ray.method(concurrency_group="reading")
    def scores(
        self,
        queries: NDArray[np.int64],
        documents: NDArray[np.integer],
        exactly: int,
        vectors: NDArray[np.float32] | None = None,
    ) -> NDArray[np.float32] | None:
        """Return inner products [q, m] in the version of step `exactly`, or None if it does not exist."""
        index = self._version(exactly, None)
        return None if index is None else index.scores(queries, documents, vectors)

    @ray.method(concurrency_group="reading")
    def status(self) -> dict[str, Any]:
        """Return the steps of the versions, of the one that is being built, and of those that wait."""
        with self._changed:
            return {
                "versions": {step: index.version for step, index in sorted(self._versions.items())},
                "building": self._building.step if self._building else None,
                "pending": sorted(self._pending),
            }

    @ray.method(concurrency_group="publishing")
    def close(self) -> None:
        """Delete all files of the index, here and on the nodes of its shards, and write no more."""
        with self._changed:
            self._closed = True
        self.build.clear()
        self.folder.delete()

    def _version(self, exactly: int | None, least: int | None) -> IndexVersion | None:
        """Return the version that may answer, or None if it is not built in time."""
        deadline = time.monotonic() + SEARCH_TIMEOUT_S
        with self._changed:
            while True:
                if self._failure is not None:
                    raise self._failure
                step = max(self._versions, default=None) if exactly is None else exactly
                index = None if step is None else self._versions.get(step)
                if index is not None and (least is None or index.step >= least):
                    self._read = index.step
                    return index
                if not self._changed.wait(max(0.0, deadline - time.monotonic())):
                    return None

    def _build_forever(self) -> None:
        while True:
            with self._changed:
                while not self._pending:
                    self._changed.wait()
                publication = self._pending.pop(min(self._pending))
                if publication.version is None:
                    newest = max((index.version for index in self._versions.values()), default=-1)
                    publication = replace(publication, version=newest + 1)
                self._building = publication
            started = time.perf_counter()
            try:
                index = self.build(publication)
            except Exception as error:  # raised to readers, since nothing else waits for this thread
                with self._changed:
                    if self._closed:
                        return
                    if self._building is None:
                        continue
                    logger.exception("the build of step %s failed", publication.step)
                    self._failure = error
                    self._changed.notify_all()
                    return
            self.metrics.built(time.perf_counter() - started)
            with self._changed:
                if self._building is None:  # `restore` discarded it
                    self.build.remove(publication.step)
                    continue
                self._building = None
                self._versions[publication.step] = index
                obsolete = self._drop_obsolete()
                self._changed.notify_all()
            for step in obsolete:  # outside the lock: large files take time to delete, and readers should not wait
                self.build.remove(step)

    def _publications(self) -> set[tuple[int, str]]:
        """Return steps and digests of the weights that are built, are being built, or wait."""
        known: list[IndexVersion | Publication] = [*self._versions.values(), *self._pending.values()]
        known += [] if self._building is None else [self._building]
        return {(each.step, each.digest) for each in known}

    def _steps(self) -> frozenset[int]:
        return frozenset(step for step, _ in self._publications())

    def _drop_obsolete(self) -> list[int]:
        """Drop versions that will not be read, and return their steps.

        The two newest stay, and the one that was read last. If each publication is built, all versions from the one
        before that on stay as well, for a trainer that resumes from an earlier step.
        """
        steps = sorted(self._versions)
        kept = {*steps[-2:], self._read}
        if self.every:
            before = max((step for step in steps if step < self._read), default=self._read)
            kept |= {step for step in steps if step >= before}
        obsolete = [step for step in steps if step not in kept]
        for step in obsolete:
            del self._versions[step]
        return obsolete


class IndexMetrics:
    """Metrics of one index. Each training step searches it, so values are recorded every few seconds only."""

    def __init__(self, tags: Mapping[str, str], every: float = EVERY) -> None:
        self.tags, self._throttle = tags, Throttle(every)
        self._queries = ThrottledCounter("pyrite_index_queries_total", tags, every)
        self._guarded = ThrottledCounter("pyrite_index_guarded_documents_total", tags, every)

    def answered(self, queries: int, version: int, age: int) -> None:
        """Count answered queries, and record the number and the age in steps of their version."""
        self._queries.add(queries)
        if self._throttle.due():
            record("pyrite_index_version_number", version, self.tags)
            record("pyrite_index_age_steps", age, self.tags)

    def built(self, seconds: float) -> None:
        """Record how long a build took."""
        record("pyrite_index_build_seconds", seconds, self.tags)

    def guarded(self, documents: int) -> None:
        """Count documents that the guard dropped."""
        if documents:
            self._guarded.add(documents)
