"""Reads candidates from the TREC run of any system."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.bounds import NonNegative, Positive, checked
from pyrite.ranking.errors import BadInput
from pyrite.ranking.pair_scores import PairScores
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.ranking.run_files import lists_of_run
from pyrite.ranking.sources import Sources
from pyrite.sampling.retrieval.ranked import Ranked
from pyrite.sampling.suppliers import Picker


class RunFile(Ranked):
    """The lists of a TREC run: the way to use candidates of other systems, such as HDCT or ANCE.

    Queries that the run lacks get no negatives, and the sampler's report counts them.

    Args:
        path: the run, plain or compressed, or a list of runs of different queries.
        strict: whether to stop at the first broken line or unknown document; otherwise they are left out and counted.
        encoding: the encoding of the files.
    """

    independent = True

    @checked
    def __init__(
        self,
        count: Annotated[int, NonNegative] | None = None,
        *,
        path: str | list[str],
        depth: Annotated[int, Positive] = 100,
        strict: bool = True,
        encoding: str = "utf-8",
        pick: Picker | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(count, depth=depth, pick=pick, name=name)
        self.paths = [path] if isinstance(path, str) else list(path)
        self.strict, self.encoding = strict, encoding
        self._known: tuple[RankedLists, PairScores] | None = None

    def search(self, sources: Sources, queries: NDArray[np.integer], depth: int) -> RankedLists:
        return self._lists(sources).take(queries).head(depth)

    def own_scores(
        self, sources: Sources, queries: NDArray[np.integer], documents: NDArray[np.integer]
    ) -> NDArray[np.float32]:
        lists = self._lists(sources)
        if self._known is None or self._known[0] is not lists:  # a teacher is asked about a few queries at a time
            rows, columns = np.nonzero(lists.documents >= 0)
            of_pairs = (rows, lists.documents[rows, columns], lists.scores[rows, columns])
            self._known = (lists, PairScores.of(*of_pairs, len(sources.encoded.documents)))
        scores = self._known[1].lookup(queries, documents)
        return np.nan_to_num(scores, nan=-np.inf, posinf=np.inf, neginf=-np.inf)

    def _lists(self, sources: Sources) -> RankedLists:
        """Return all lists of the files."""
        read = partial(lists_of_run, self.paths, sources.collection, None, self.strict, self.encoding)
        lists: RankedLists = self.read(sources, read)
        if not (lists.documents >= 0).any():
            raise BadInput("ranks no document of this collection for any of its queries", self.paths[0])
        return lists
