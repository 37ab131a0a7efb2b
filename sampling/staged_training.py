"""Trains several rankers one after the other, each on lists that the one before compressed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ranking.ranked_lists import RankedLists
from ranking.training import RankerTraining
from sampling.retrieval.compressed_lists import CompressedLists, compress_lists
from sampling.sampler import Sampler


class StagedTraining:
    """Trains the stages of an objective: several for SIR V1 and V2, one for all others, which is `RankerTraining.fit`.

    After a stage each function's lists are compressed to what the stage's ranker scores highest, and the next ranker
    is trained on those, from the checkpoint again or from the weights that the stage has reached (Pu et al. 2021,
    strategies V1 and V2).

    Args:
        assemble: makes a fresh training and its sampler, the same whenever it is called.
    """

    def __init__(self, assemble: Callable[[], tuple[RankerTraining, Sampler]]) -> None:
        self._assemble = assemble
        self.training, self.sampler = assemble()
        self.stages = self.training.objective.stages()
        self.stage = self.steps = self.epochs = 0
        self.reports: list[dict[str, Any]] = []

    def fit(
        self,
        on_validation: Callable[[RankerTraining], None],
        on_step: Callable[[RankerTraining], None] | None = None,
    ) -> None:
        """Train to the end of the last stage.

        Args:
            on_validation: called after each validation; may keep `state_dict`.
            on_step: called after each step that no validation follows, likewise.
        """
        while True:
            if self._has_use(self.stage):
                self.training.fit(self.sampler, on_validation, on_step)
            if self.stage + 1 == len(self.stages):
                return
            self._advance()

    def _has_use(self, stage: int) -> bool:
        """Whether anything comes of a stage: its weights, or what its ranker picks."""
        following = self.stages[stage + 1 :]
        return not following or following[0].flows or following[0].pick == "top"

    def _advance(self) -> None:
        """Go on to the next stage: compress the lists, and start a ranker on them."""
        before, sampler = self.training, self.sampler
        self.reports += self._report()
        self.steps, self.epochs = self.steps + before.step, self.epochs + before.epoch
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
        self.sampler.functions = {name: CompressedLists(each) for name, each in lists.items()}
        self.sampler.count = block - 1

    def _report(self) -> list[dict[str, Any]]:
        return [{"stage": self.stage, **row} for row in self.sampler.report()]

    def report(self) -> list[dict[str, Any]]:
        """A row a stage and function (`Sampler.report`)."""
        return [*self.reports, *self._report()]

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed run needs to go on at the stage where it was."""
        later = self.stage > 0
        return {
            "training": self.training.state_dict(),
            "sampler": self.sampler.state_dict(),
            "stage": [self.stage, self.steps, self.epochs],
            "reports": self.reports,
            "lists": {n: vars(f.lists) for n, f in self.sampler.functions.items() if isinstance(f, CompressedLists)}
            if later
            else {},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`."""
        self.stage, self.steps, self.epochs = state["stage"]
        self.reports = state["reports"]
        if self.stage:
            self._start_stage({name: RankedLists(**lists) for name, lists in state["lists"].items()})
        self.training.load_state_dict(state["training"])
        self.sampler.load_state_dict(state["sampler"])
