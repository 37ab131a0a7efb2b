"""Builds one version of an index: encoder actors share its blocks among them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import ray
from numpy.typing import NDArray

from cluster.index.corpus import Corpus, Size
from cluster.index.encoder_options import EncoderOptions
from cluster.index.encoder_pool import EncoderPool
from cluster.index.errors import unwrapped
from cluster.index.folder import WEIGHTS, IndexFolder, Publication
from ranking.index import IndexOptions
from ranking.index_versions import DOCUMENTS, QUERIES, IndexVersion, open_version, start_version
from ranking.query_lists import Listed, QueryLists
from ranking.shards import Searched


class IndexBuild:
    """Builds versions, one at a time.

    Args:
        corpus: what is encoded.
        options: of the FAISS index.
        encoders: how many actors encode, and with what.
        block: texts that an encoder takes at once.
        listed: queries that are searched when a version is built.
    """

    def __init__(
        self,
        corpus: Corpus,
        options: IndexOptions,
        encoders: EncoderOptions,
        block: int,
        listed: Listed | None = None,
    ) -> None:
        self.options, self.listed, self.pool = options, listed, EncoderPool(corpus, encoders, block)

    @property
    def lost(self) -> frozenset[int]:
        """Shards that did not answer when they were last asked."""
        return frozenset()

    def __call__(self, folder: IndexFolder, publication: Publication, version: int) -> IndexVersion:
        """The version of some published weights, finished and opened.

        Args:
            folder: where it will stand, and where the weights are.
            publication: the weights.
            version: its number.

        Raises:
            BadInput: where the disk is full, or FAISS can't build the index.
        """
        content = folder.weights(publication)
        weights = ray.put(content)
        with unwrapped():
            size = self.pool.measure(weights, publication.digest)
            finished = self.make(folder, publication, version, content, weights, size)
        if self.listed is None:
            return finished
        lists = QueryLists.search(self.complete(finished), finished.queries, self.listed)
        lists.save(folder.place(publication.step))
        return replace(finished, lists=lists)

    def make(
        self,
        folder: IndexFolder,
        publication: Publication,
        version: int,
        content: NDArray[np.uint8],
        weights: ray.ObjectRef,
        size: Size,
    ) -> IndexVersion:
        """The version without lists.

        Args:
            folder, publication, version: of `__call__`.
            content, weights: the weights, here and in the object store.
            size: of what there is to encode.
        """
        place, pool, digest = folder.place(publication.step), self.pool, publication.digest
        building = start_version(place, size.documents, size.queries, size.dimension, self.options)
        queries = pool.blocks(range(size.queries), True, building / QUERIES)
        pool.encode(weights, digest, [*pool.blocks(range(size.documents), False, building / DOCUMENTS), *queries])
        return self.finish(building, place, publication, version, content, pool.finish)

    def finish(
        self,
        building: Path,
        place: Path,
        publication: Publication,
        version: int,
        content: NDArray[np.uint8],
        finish: Callable[..., object],
    ) -> IndexVersion:
        """Put the weights beside what was built from them, have it finished, and open it.

        Args:
            building, place: the folder now, and when it is finished.
            publication, version, content: of `make`.
            finish: `finish_version`, wherever that is done.
        """
        content.tofile(building / WEIGHTS)
        finish(building, place, version, publication.step, publication.digest, self.options)
        finished = open_version(place)
        if finished is None:
            raise RuntimeError(f"{place} was finished and can't be opened")
        return finished

    def complete(self, version: IndexVersion) -> Searched:
        """What finds all documents of a version, however long it takes."""
        return version.index

    def opened(self, folder: IndexFolder) -> dict[int, IndexVersion]:
        """The versions that are there already, by step."""
        return folder.versions()

    def remove(self, folder: IndexFolder, step: int) -> None:
        """Delete a version."""
        folder.remove(step)

    def clear(self) -> None:
        """Delete what other machines keep of the index."""
