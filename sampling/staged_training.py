"""Trains several rankers one after the other, each on lists that the previous one compressed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.ranked_lists import RankedLists
from pyrite.ranking.sources import Sources
from pyrite.ranking.training import Batch, RankerTraining
from pyrite.sampling.filtered import FilteredFunction
from pyrite.sampling.relevant_pairs import RelevantPairs
from pyrite.sampling.retrieval.function import RetrievalFunction
from pyrite.sampling.retrieval.ranked import Ranked
from pyrite.sampling.sampler import Sampler

CHUNK = 256
"""Queries per scoring call."""


class StagedTraining:
    """Trains the stages of an objective: several for SIR V1 and V2, one for all others.

    After a stage each function's lists are compressed to the documents that the stage's ranker scores highest, and the
    next ranker is trained on those, either from the checkpoint again or from the weights that the stage has reached (Pu
    et al. 2021, strategies V1 and V2).

    Args:
        assemble: returns a fresh training and its sampler, the same at each call.
    """

    def __init__(self, assemble: Callable[[], tuple[RankerTraining, Sampler]]) -> None:
        self._assemble = assemble
        self.training, self.sampler = assemble()
        self.stages = self.training.objective.stages()
        self.stage = self.steps = self.epochs = self.documents_read = 0
        self.reports: list[dict[str, Any]] = []

    def trainings(self) -> Iterator[RankerTraining]:
        """Yield the training of each stage from the current one on, for the caller to fit on `sampler`.

        Between two steps, the state can be saved.
        """
        while True:
            if self._has_use(self.stage):
                yield self.training
            if self.stage + 1 == len(self.stages):
                return
            self._advance()

    def _has_use(self, stage: int) -> bool:
        """Return whether a stage has an effect: through its weights, or through what its ranker picks."""
        following = self.stages[stage + 1 :]
        return not following or following[0].flows or following[0].pick == "top"

    def _advance(self) -> None:
        """Start the next stage: compress the lists, and start a ranker on them."""
        before, sampler = self.training, self.sampler
        self.reports += self._report()
        self.steps, self.epochs = self.steps + before.step, self.epochs + before.epoch
        self.documents_read += before.documents_read
        self.stage += 1
        stage = self.stages[self.stage]
        assert stage.block is not None
        queries = np.unique(before.examples.queries)
        keep = stage.block - 1 if stage.pick == "top" else None
        compressed = {
            name: compress_lists(function, before, queries, sampler.count, keep, sampler.rng)
            for name, function in sampler.functions.items()
        }
        self._start_stage({name: function.lists for name, function in compressed.items()})
        if stage.flows:
            self.training.ranker.load_state_dict(before.ranker.state_dict())

    def _start_stage(self, lists: dict[str, RankedLists]) -> None:
        self.training, self.sampler = self._assemble()
        block = self.stages[self.stage].block
        assert block is not None
        self.sampler.functions = {name: CompressedLists(ranked) for name, ranked in lists.items()}
        self.sampler.count = block - 1

    def _report(self) -> list[dict[str, Any]]:
        return [{"stage": self.stage, **row} for row in self.sampler.report()]

    def report(self) -> list[dict[str, Any]]:
        """Return one row per stage and function (see `pyrite.sampling.sampler.Sampler.report`)."""
        return [*self.reports, *self._report()]

    def state_dict(self) -> dict[str, Any]:
        """Return everything that a resumed run needs to continue in the stage where it was."""
        later = self.stage > 0
        return {
            "training": self.training.state_dict(),
            "sampler": self.sampler.state_dict(),
            "stage": [self.stage, self.steps, self.epochs, self.documents_read],
            "reports": self.reports,
            "lists": {
                name: vars(function.lists)
                for name, function in self.sampler.functions.items()
                if later and isinstance(function, CompressedLists)
            },
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`."""
        self.stage, self.steps, self.epochs, self.documents_read = state["stage"]
        self.reports = state["reports"]
        if self.stage:
            self._start_stage({name: RankedLists(**lists) for name, lists in state["lists"].items()})
        self.training.load_state_dict(state["training"])
        self.sampler.load_state_dict(state["sampler"])


class CompressedLists(Ranked):
    """S_{i+1} = Top(f_i(S_i), K_i): the negatives of a list that a ranker scores highest (Pu et al. 2021, equation 4).

    Built by `compress_lists` between two stages of a training, not from a configuration.

    Args:
        lists: the lists of all queries, without relevant documents.
    """

    independent = True

    def __init__(self, lists: RankedLists) -> None:
        super().__init__(depth=max(lists.documents.shape[1], 1))
        self.lists, self.counts = lists, lists.counts

    def search(self, sources: Sources, queries: NDArray[np.integer], depth: int) -> RankedLists:
        return self.lists.take(queries).head(depth)


def compress_lists(
    function: RetrievalFunction,
    training: RankerTraining,
    queries: NDArray[np.int64],
    shown: int,
    keep: int | None,
    rng: np.random.Generator,
) -> CompressedLists:
    """Return the next stage's function.

    Args:
        queries: the training queries; other queries get empty lists.
        shown: the number of documents at the head of each list that compete.
        keep: the number of documents that are kept, those that the ranker scores highest first; None keeps all in
            their order.
    """
    width = shown if keep is None else min(keep, shown)
    documents = np.full((len(training.encoded.queries), width), -1, np.int32)
    scores = np.full(documents.shape, -np.inf, np.float32)
    relevant = training.encoded.judgements.relevant()
    pairs = RelevantPairs(training.encoded)
    offered = FilteredFunction(function, pairs)
    for start in range(0, len(queries), CHUNK):
        rows = queries[start : start + CHUNK]
        batch = Batch(rows, relevant.documents[relevant.offsets[rows]])
        candidates = offered.top(batch, shown, rng)
        keys = candidates.scores if keep is None else training.score(rows, candidates.documents)
        missing = candidates.documents < 0
        order = np.argsort(missing if keep is None else np.where(missing, np.inf, -keys), axis=1, kind="stable")
        order = order[:, :width]
        size = order.shape[1]
        documents[rows, :size] = np.take_along_axis(candidates.documents, order, 1)
        scores[rows, :size] = np.take_along_axis(keys, order, 1)
    return CompressedLists(RankedLists(documents, np.where(documents >= 0, scores, -np.inf).astype(np.float32)))
