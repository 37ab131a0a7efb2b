"""Updates the rankers of many copies in one batch of kernels, where they are on a GPU."""

from __future__ import annotations

from typing import Any

from ranking.stacked import can_stack, stacked_update
from ranking.training import UpdateResult
from rl.copies import Copies
from rl.environment import SamplingEnvironment


class StackedCopies(Copies):
    """Copies that go from batch to batch together.

    Where their rankers allow it, one batch of kernels over stacked weights updates all those that still act
    (`ranking.stacked`: on a GPU). Elsewhere each is updated by itself, with the results that it would have alone.

    Args:
        environments: copies of `SamplingEnvironment`, of one configuration.
        forced: stack on a CPU too, where it is slower: to test it.
    """

    def __init__(self, environments: list[SamplingEnvironment], forced: bool = False) -> None:
        super().__init__(environments)
        self.forced = forced

    def advance(self, active: list[Any], actions: list[Any]) -> list[tuple[Any, float, bool, bool, dict[str, Any]]]:
        for environment, action in zip(active, actions, strict=True):
            environment.act(action)
        while acting := [environment for environment in active if environment.acting]:
            proposals = [environment.propose() for environment in acting]
            for environment, (_, negatives), step in zip(
                acting, proposals, self._updates(acting, proposals), strict=True
            ):
                environment.absorb(negatives, step)
        return [environment.finish() for environment in active]

    def _updates(self, acting: list[Any], proposals: list[tuple[Any, Any]]) -> list[UpdateResult]:
        trainings = [environment.training for environment in acting]
        if len(trainings) > 1 and can_stack(trainings, self.forced):
            batches, negatives = zip(*proposals, strict=True)
            return stacked_update(trainings, batches, negatives)
        return [training.update(*proposal) for training, proposal in zip(trainings, proposals, strict=True)]
