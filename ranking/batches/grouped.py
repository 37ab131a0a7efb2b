"""Puts examples of one group into a batch: of one category, or of one topic."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.batch import Batch
from pyrite.ranking.batches.order import BatchOrder
from pyrite.ranking.bounds import AtLeast, checked
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.labels import labels_of
from pyrite.ranking.lazy import sklearn, threadpoolctl
from pyrite.ranking.vectors import WordVectors, directions


class Grouped(BatchOrder):
    """Batches of examples whose queries belong to one group. A subclass defines `group`.

    In each epoch a group's examples are shuffled and fill as many batches as they can. The rest fill batches group by
    group, so these contain few groups. The batches come in random order.
    """

    groups: NDArray[np.int64]

    @abstractmethod
    def group(
        self, encoded: EncodedCollection, vectors: WordVectors, queries: NDArray[np.integer]
    ) -> NDArray[np.integer]:
        """Return the group of each query. See `prepare` for the arguments."""

    def prepare(self, encoded: EncodedCollection, vectors: WordVectors, queries: NDArray[np.integer]) -> None:
        self.groups = np.full(len(encoded.queries), -1, np.int64)
        self.groups[queries] = self.group(encoded, vectors, queries)

    def order(self, examples: Batch, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        shuffled = rng.permutation(len(examples))
        groups = self.groups[examples.queries[shuffled]]
        whole, rest = [], []
        for group in rng.permutation(np.unique(groups)):
            members = shuffled[groups == group]
            full = len(members) // size * size
            whole += np.split(members[:full], full // size) if full else []
            rest.append(members[full:])
        left = np.concatenate(rest) if rest else shuffled[:0]
        full = len(left) // size * size
        whole += np.split(left[:full], full // size) if full else []
        mixed = [whole[number] for number in rng.permutation(len(whole))]
        return np.concatenate([*mixed, left[full:]]).astype(np.int64)


class ByCategory(Grouped):
    """Batches of queries of one category, whose in-batch negatives are about the same things.

    Args:
        level: `category` or `subcategory`. Queries without one are a group too.

    Raises:
        BadInput: if the level is unknown or the collection has no categories.
    """

    @checked
    def __init__(self, level: Literal["category", "subcategory"] = "category") -> None:
        self.level = level

    def group(
        self, encoded: EncodedCollection, vectors: WordVectors, queries: NDArray[np.integer]
    ) -> NDArray[np.integer]:
        labels = labels_of(encoded.queries, "batches=by_category")[queries]
        if self.level == "category":
            return labels[:, 0]
        return np.unique(labels, axis=0, return_inverse=True)[1].ravel()


class TopicBalanced(Grouped):
    """Batches of queries of one topic, whose in-batch negatives are hard (TAS; Hofstätter et al. 2021).

    Topics are k-means clusters of the queries' vectors. With `selector=margin_balanced` and a teacher it is
    TAS-Balanced.

    Differs from the paper: vectors are means of word vectors, weighted by tf·idf, while the paper takes those of a
    trained retriever; and an epoch sees each example once, while the paper draws a cluster for each batch.

    Args:
        clusters: the number of topics. None makes one per 200 queries, as in the paper.
        seed: the seed of k-means: the topics do not depend on the run's seed.

    Raises:
        BadInput: if there are fewer than two topics.
    """

    reads_word_vectors = True

    @checked
    def __init__(self, clusters: Annotated[int, AtLeast(2)] | None = None, seed: int = 0) -> None:
        self.clusters, self.seed = clusters, seed

    def group(
        self, encoded: EncodedCollection, vectors: WordVectors, queries: NDArray[np.integer]
    ) -> NDArray[np.integer]:
        table = vectors.table
        if not vectors.known.any():  # a random projection of the words keeps angles as well as possible
            table = np.random.default_rng(self.seed).standard_normal((len(table), 64)).astype(np.float32)
        means = directions(encoded.queries.take(queries), table, encoded.idf).astype(np.float64)
        count = min(self.clusters or max(2, len(queries) // 200), len(np.unique(means, axis=0)))
        with threadpoolctl.threadpool_limits(1):  # the number of threads decides the last bits, and sometimes a topic
            clustering = sklearn.cluster.MiniBatchKMeans(count, n_init=3, random_state=self.seed)
            topics: NDArray[np.integer] = clustering.fit_predict(means)
        return topics
