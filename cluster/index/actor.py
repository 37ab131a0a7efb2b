"""Serves negatives from the newest version of an index while it builds the next: the index actor."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from cluster.index.build import IndexBuild
from cluster.index.corpus import Corpus
from cluster.index.encoder_options import EncoderOptions
from cluster.index.folder import IndexFolder, Publication, digest_of
from cluster.index.metrics import IndexMetrics
from cluster.index.sharded_build import ShardedBuild
from cluster.index.shards import WHOLE, Sharding
from ranking.embedding import BLOCK
from ranking.index import IndexOptions
from ranking.index_versions import IndexVersion
from ranking.query_lists import Listed
from sampling.retrieval.live_index import Answer

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Reply:
    """What a reader hears.

    Args:
        answer: None where no version of what was asked for is there yet.
        known: steps of all the weights that the actor has built from or will build from.
        lost: shards whose documents the answer lacks, or that were waited for.
    """

    answer: Answer | None
    known: frozenset[int]
    lost: frozenset[int] = frozenset()


class NegativeIndexActor:
    """Versions of an index: one that is served, one that is being built, and those that somebody still reads.

    Readers and publishers run in threads of their own, and the build in another one, whose work is done by encoder
    actors. A reader takes a reference to a version and keeps it for the whole of an answer; a finished version takes
    the place of the one before in a single assignment.

    Ray restarts the actor where it dies, and runs the constructor again: it takes names and options alone, and what
    had been finished or published is found in the folder.

    Args:
        corpus: what is encoded.
        folder: of the versions.
        options: of the FAISS index.
        encoders: how many actors encode, and with what.
        every: build each publication, in order; else the newest alone.
        tags: of the metrics.
        block: texts that an encoder takes at once.
        sharding: actors that the documents are shared out to; with one this actor holds them all.
        listed: queries that are searched when a version is built.
    """

    def __init__(
        self,
        corpus: Corpus,
        folder: str,
        options: IndexOptions,
        encoders: EncoderOptions,
        every: bool,
        tags: Mapping[str, str],
        block: int = BLOCK,
        sharding: Sharding = WHOLE,
        listed: Listed | None = None,
    ) -> None:
        self.corpus, self.every = corpus, every
        self.folder = IndexFolder(Path(folder))
        made = corpus, options, encoders, block, listed
        self.build = IndexBuild(*made) if sharding.alone else ShardedBuild(sharding, *made)
        self.metrics = IndexMetrics(tags)
        self._changed = threading.Condition()
        self._versions: dict[int, IndexVersion] = self.build.opened(self.folder)
        self._pending = {publication.step: publication for publication in self.folder.published()}
        self._building: Publication | None = None
        self._read: dict[str, int] = {}  # the step of the version that each reader has read last
        self._failure: Exception | None = None
        threading.Thread(target=self._build_for_ever, name="build", daemon=True).start()

    @ray.method(concurrency_group="publishing")
    def publish(self, step: int, version: int | None, weights: Sequence[ray.ObjectRef]) -> None:
        """Take weights to build the next version from. Weights that are known already change nothing.

        Args:
            step: of the trainer.
            version: its number; None counts on from the last build.
            weights: one reference to a safetensors file as uint8, in a list so that it arrives as a reference.
        """
        self._take(step, version, ray.get(weights[0]))

    def _take(self, step: int, version: int | None, content: NDArray[np.uint8]) -> None:
        publication = Publication(step, version, digest_of(content))
        with self._changed:
            if self._known(publication) or (not self.every and step < max(self._steps(), default=-1)):
                return
        self.folder.publish(publication, content)
        with self._changed:
            for other in [each for each in self._pending.values() if not self.every or each.step == step]:
                self._withdraw(other)
            self._pending[step] = publication
            self._changed.notify_all()

    @ray.method(concurrency_group="publishing")
    def restore(self, publications: Sequence[tuple[int, int | None, ray.ObjectRef]]) -> None:
        """Go back to exactly these publications: what else there is was published by a trainer that is no more.

        Args:
            publications: step, version and weights of each.
        """
        kept = {step: Publication(step, version, digest_of(ray.get(ref))) for step, version, ref in publications}
        with self._changed:
            self._read.clear()
            for pending in list(self._pending.values()):
                if kept.get(pending.step) != pending:
                    self._withdraw(pending)
            for step, index in list(self._versions.items()):
                if step not in kept or index.digest != kept[step].digest:
                    del self._versions[step]
                    self.build.remove(self.folder, step)
            if self._building is not None and kept.get(self._building.step) != self._building:
                self.folder.withdraw(self._building)
                self._building = None  # the build goes on, and what comes out of it is thrown away
        for step, version, ref in publications:
            self._take(step, version, ray.get(ref))

    @ray.method(concurrency_group="reading")
    def search(
        self,
        reader: str,
        queries: NDArray[np.int64],
        depth: int,
        step: int,
        exactly: int | None = None,
        least: int | None = None,
        vectors: NDArray[np.float32] | None = None,
        source: str = "dense",
        guarded: int = 0,
        patience: float = 1.0,
    ) -> Reply:
        """The best documents of each query.

        Args:
            reader: who asks; the version that it is answered from stays until it is answered from another one.
            queries: ids [q].
            depth: documents a query.
            step: the reader's now.
            exactly: the version of the weights of this step and no other.
            least: a version of the weights of this step or a later one.
            vectors: of the queries [q, d]; None: those of the version.
            source: `dense`, or `bm25` for BM25's lists of the same documents.
            guarded: documents that the reader's guard has dropped since it asked last.
            patience: seconds to wait for a version like that.
        """
        with self._version(reader, exactly, least, patience) as index:
            self.metrics.guarded(guarded)
            if index is None:
                return Reply(None, self._steps())
            if source == "bm25":
                lists = self.corpus.bm25(queries, depth)
                found = lists.documents, lists.scores
            else:
                found = index.search(queries, depth, vectors)
            self.metrics.answered(len(queries), index.version, step - index.step)
            return Reply(Answer(*found, index.version, index.step), self._steps(), self.build.lost)

    @ray.method(concurrency_group="reading")
    def scores(
        self,
        reader: str,
        queries: NDArray[np.int64],
        documents: NDArray[np.integer],
        exactly: int,
        vectors: NDArray[np.float32] | None = None,
        patience: float = 1.0,
    ) -> NDArray[np.float32] | None:
        """Inner products [q, m] in the version of step `exactly`; None where that is not there."""
        with self._version(reader, exactly, None, patience) as index:
            return None if index is None else index.scores(queries, documents, vectors)

    @ray.method(concurrency_group="reading")
    def status(self) -> dict[str, Any]:
        """Steps of the versions that are there, of what is being built, and of what waits."""
        with self._changed:
            return {
                "versions": {step: index.version for step, index in sorted(self._versions.items())},
                "building": self._building.step if self._building else None,
                "pending": sorted(self._pending),
            }

    @ray.method(concurrency_group="publishing")
    def clear(self) -> None:
        """Delete what shards keep on other machines: the index comes to its end."""
        self.build.clear()

    @contextmanager
    def _version(
        self, reader: str, exactly: int | None, least: int | None, patience: float
    ) -> Iterator[IndexVersion | None]:
        """The version that a reader is to read, None where it does not come in time."""
        given_up = time.monotonic() + patience
        with self._changed:
            while True:
                if self._failure is not None:
                    raise self._failure
                step = max(self._versions, default=None) if exactly is None else exactly
                index = None if step is None else self._versions.get(step)
                if index is not None and (least is None or index.step >= least):
                    self._read[reader] = index.step
                    break
                index = None
                if not self._changed.wait(max(0.0, given_up - time.monotonic())):
                    break
        yield index

    def _build_for_ever(self) -> None:
        while True:
            with self._changed:
                while not self._pending:
                    self._changed.wait()
                publication = self._building = self._pending.pop(min(self._pending))
                version = publication.version
                if version is None:
                    version = 1 + max((index.version for index in self._versions.values()), default=-1)
            started = time.perf_counter()
            try:
                index = self.build(self.folder, publication, version)
            except Exception as error:  # whatever it is, it is the readers' to hear: nobody else listens to a thread
                with self._changed:
                    if self._building is None:
                        continue
                    log.exception("the build of step %s failed", publication.step)
                    self._failure = error
                    self._changed.notify_all()
                    return
            self.metrics.built(time.perf_counter() - started)
            with self._changed:
                if self._building is None:  # nobody wants it any more
                    self.build.remove(self.folder, publication.step)
                    continue
                self._building = None
                self._versions[publication.step] = index
                forgotten = self._tidy()
                self._changed.notify_all()
            self.folder.withdraw(publication)
            for step in forgotten:  # outside the lock: large files take a while to delete, and readers do not wait
                self.build.remove(self.folder, step)

    def _known(self, publication: Publication) -> bool:
        waiting = [*([self._building] if self._building else []), *self._pending.values()]
        known = {(other.step, other.digest) for other in waiting}
        known |= {(index.step, index.digest) for index in self._versions.values()}
        return (publication.step, publication.digest) in known

    def _steps(self) -> frozenset[int]:
        building = [self._building.step] if self._building else []
        return frozenset([*self._versions, *self._pending, *building])

    def _tidy(self) -> list[int]:
        """Forget what nobody reads or will read: the newest version stays, the one before, and what is being read.

        Returns:
            The steps of what is forgotten.
        """
        steps = sorted(self._versions)
        kept = {*steps[-2:], *self._read.values()}
        if self.every:  # later ones are still to be read; the one before is for a trainer that goes back a little
            oldest = min(self._read.values(), default=-1)
            before = max((step for step in steps if step < oldest), default=oldest)
            kept |= {step for step in steps if step >= before}
        forgotten = [step for step in steps if step not in kept]
        for step in forgotten:
            del self._versions[step]
        return forgotten

    def _withdraw(self, publication: Publication) -> None:
        del self._pending[publication.step]
        self.folder.withdraw(publication)
