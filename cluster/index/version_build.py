"""Builds one version of an index with encoder actors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import ray

from pyrite.cluster.index.calls import unwrapped
from pyrite.cluster.index.encoder import CorpusSize, PreparedCorpus
from pyrite.cluster.index.encoder_pool import EncoderOptions, EncoderPool
from pyrite.cluster.index.index_folder import WEIGHTS, IndexFolder, Publication
from pyrite.ranking.embedding import BLOCK
from pyrite.ranking.index import IndexOptions
from pyrite.ranking.index_versions import DOCUMENTS, QUERIES, IndexVersion, open_version, start_version
from pyrite.ranking.query_lists import Listed, QueryLists
from pyrite.ranking.shards import Searched


@dataclass(frozen=True)
class IndexSpec:
    """The inputs of a negative index. It holds names and options only, so it can be sent to any process.

    Args:
        name: name of the serving actor, as Ray's dashboard shows it; unique on the cluster.
        folder: folder of the index; each index makes a subfolder there.
        tags: metric tags, `run` and `function`.
        block: texts per call to an encoder.
        apart: take free resources of the cluster, instead of a share of the caller's placement group.
        ranges: documents of each shard; with less than two, the serving actor holds all documents.
        on_lost: wait for a shard that died, or answer without its documents.
        listed: queries that are searched once per version; None searches queries as they come.
    """

    name: str
    corpus: PreparedCorpus
    folder: Path
    options: IndexOptions
    encoders: EncoderOptions
    tags: Mapping[str, str]
    block: int = BLOCK
    apart: bool = False
    ranges: Sequence[range] = ()
    on_lost: Literal["wait", "skip"] = "wait"
    listed: Listed | None = None


class IndexBuild:
    """Builds versions, one at a time."""

    def __init__(self, spec: IndexSpec, folder: IndexFolder) -> None:
        self.spec, self.folder, self.pool = spec, folder, EncoderPool(spec.corpus, spec.encoders, spec.block)

    @property
    def lost(self) -> frozenset[int]:
        """Shards that did not answer their last call."""
        return frozenset()

    def __call__(self, publication: Publication) -> IndexVersion:
        """Build, finish and open the version of published weights.

        Raises:
            BadInput: if the disk is full, or FAISS can't build the index.
        """
        path, options = self.folder.version_path(publication.step), self.spec.options
        with unwrapped():
            size = self.pool.measure(publication)
            building = start_version(path, self.kept(size), size.queries, size.dimension, options)
            self.fill(building, publication, size)
            ray.get(publication.weights).tofile(building / WEIGHTS)
            of_version = publication.version, publication.step, publication.digest, options
            self.pool.finish({None: (building, path, *of_version)})
        finished = open_version(path)
        if finished is None:
            raise RuntimeError(f"{path} was finished and can't be opened")
        finished = self.searchable(finished)
        if self.spec.listed is None:
            return finished
        lists = QueryLists.search(self.complete(finished), finished.queries, self.spec.listed)
        lists.save(path)
        return replace(finished, lists=lists)

    def kept(self, size: CorpusSize) -> int:
        """Return the number of documents whose vectors are in the version's folder."""
        return size.documents

    def fill(self, building: Path, publication: Publication, size: CorpusSize) -> None:
        """Encode all texts into the files of a version; `building` is its folder until it is finished."""
        queries = self.pool.blocks(range(size.queries), True, building / QUERIES)
        documents = self.pool.blocks(range(size.documents), False, building / DOCUMENTS)
        self.pool.encode(publication, [*documents, *queries])

    def searchable(self, version: IndexVersion) -> IndexVersion:
        """Return an opened version with the index that searches it."""
        return version

    def complete(self, version: IndexVersion) -> Searched:
        """Return an index that searches all documents of a version, however long that takes."""
        return version.index

    def opened(self) -> dict[int, IndexVersion]:
        """Return the versions that exist already, by step."""
        return self.folder.versions()

    def remove(self, step: int) -> None:
        """Delete a version."""
        self.folder.remove(step)

    def clear(self) -> None:
        """Delete the files of the index on other nodes."""
