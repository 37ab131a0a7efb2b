"""Reads candidates from the TREC run of any system."""

from __future__ import annotations

from ranking.errors import BadInput
from ranking.ranked_lists import RankedLists
from ranking.run_files import lists_of_run
from ranking.sources import Sources
from sampling.retrieval.ranked import Ranked


class RunFile(Ranked):
    """The lists of a TREC run: this is how HDCT or ANCE candidates come in.

    Queries that the run lacks get no negatives, and the sampler's report counts them.

    Args:
        path: the run, plain or .gz, or a list of runs of different queries.
        depth: length of a list.
    """

    def __init__(self, path: str | list[str], depth: int = 100) -> None:
        super().__init__(depth)
        self.paths = [path] if isinstance(path, str) else list(path)

    def rank(self, sources: Sources) -> RankedLists:
        lists = lists_of_run(self.paths, sources.collection, self.depth)
        if not len(lists) or not (lists.documents >= 0).any():
            raise BadInput("ranks no document of this collection for any of its queries", self.paths[0])
        return lists
