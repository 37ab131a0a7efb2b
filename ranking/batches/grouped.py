"""Puts examples of one group into a batch: of one category, or of one topic."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from ranking.batch import Batch
from ranking.batches.order import BatchOrder
from ranking.encoding import EncodedCollection
from ranking.errors import BadInput
from ranking.labels import labels_of
from ranking.vectors import WordVectors, directions


class Grouped(BatchOrder):
    """Batches of examples whose queries belong to one group; a subclass writes `group`.

    In each epoch a group's examples are shuffled and fill as many batches as they can; what is left over fills batches
    group by group, so that these hold few groups. The batches come in random order.
    """

    groups: NDArray[np.int64]

    @abstractmethod
    def group(
        self, encoded: EncodedCollection, vectors: WordVectors, queries: NDArray[np.integer]
    ) -> NDArray[np.integer]:
        """The group of each of the queries; arguments as of `prepare`."""

    def prepare(self, encoded: EncodedCollection, vectors: WordVectors, queries: NDArray[np.integer]) -> None:
        self.groups = np.full(len(encoded.queries), -1, np.int64)
        self.groups[queries] = self.group(encoded, vectors, queries)

    def order(self, examples: Batch, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        shuffled = rng.permutation(len(examples))
        groups = self.groups[examples.queries[shuffled]]
        whole, rest = [], []
        for group in rng.permutation(np.unique(groups)):
            own = shuffled[groups == group]
            full = len(own) // size * size
            whole += np.split(own[:full], full // size) if full else []
            rest.append(own[full:])
        left = np.concatenate(rest) if rest else shuffled[:0]
        full = len(left) // size * size
        whole += np.split(left[:full], full // size) if full else []
        mixed = [whole[place] for place in rng.permutation(len(whole))]
        return np.concatenate([*mixed, left[full:]]).astype(np.int64)


class ByCategory(Grouped):
    """Queries of one category stand together: their positives are negatives that are about the same things.

    Args:
        level: category or subcategory. Queries without one are a group too.

    Raises:
        BadInput: where there is no such level, or the collection has no categories.
    """

    def __init__(self, level: str = "category") -> None:
        if level not in ("category", "subcategory"):
            raise BadInput(f"no level {level!r}", "batches.level", "choose category or subcategory")
        self.level = level

    def group(
        self, encoded: EncodedCollection, vectors: WordVectors, queries: NDArray[np.integer]
    ) -> NDArray[np.integer]:
        labels = labels_of(encoded.queries, "batches=by_category")[queries]
        if self.level == "category":
            return labels[:, 0]
        return np.unique(labels, axis=0, return_inverse=True)[1].ravel()


class TopicBalanced(Grouped):
    """Queries of one topic stand together, so that in-batch negatives are hard (Hofstätter et al. 2021: TAS).

    Topics are clusters of the queries' vectors, by k-means. With `selector=margin_balanced` and a teacher it is
    TAS-Balanced.

    Differs from the paper: vectors are means of the words' vectors, weighted by tf·idf, where the paper takes those of
    a trained retriever; and an epoch sees each example once, where the paper draws a cluster for each batch.

    Args:
        clusters: topics; None: so many that one has 200 queries, as in the paper.
        seed: of k-means: the same topics whatever the run's seed.

    Raises:
        BadInput: where there are fewer than two topics.
    """

    def __init__(self, clusters: int | None = None, seed: int = 0) -> None:
        if clusters is not None and clusters < 2:
            raise BadInput(f"clusters is {clusters}", "batches.clusters", "choose a whole number from 2 up")
        self.clusters, self.seed = clusters, seed

    def group(
        self, encoded: EncodedCollection, vectors: WordVectors, queries: NDArray[np.integer]
    ) -> NDArray[np.integer]:
        from sklearn.cluster import MiniBatchKMeans
        from threadpoolctl import threadpool_limits

        table = vectors.table
        if not vectors.known.any():  # then a random projection of the words, which keeps angles as well as it can
            table = np.random.default_rng(self.seed).standard_normal((len(table), 64)).astype(np.float32)
        means = directions(encoded.queries.take(queries), table, encoded.idf).astype(np.float64)
        count = min(self.clusters or max(2, len(queries) // 200), len(np.unique(means, axis=0)))
        with threadpool_limits(1):  # how many threads add up decides last bits, and so a topic now and then
            found: NDArray[np.integer] = MiniBatchKMeans(count, n_init=3, random_state=self.seed).fit_predict(means)
        return found
