"""Seeds the dropout of an update, so that it depends on the run's seed, the step and the rows alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from ranking.rankers.ranker import Ranker


class DropoutSeeds:
    """Gives each part of each step a generator of its own.

    Args:
        rng: of the order of examples. The seed is a child of its sequence, and takes nothing from the order itself.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        (child,) = rng.bit_generator.seed_seq.spawn(1)  # type: ignore[attr-defined]
        self._seed = int(child.generate_state(1, np.uint32)[0])

    def generator(self, step: int, row: int) -> torch.Generator:
        """All chance of the rows from `row` on at a step."""
        seed = np.random.SeedSequence([self._seed, step, row]).generate_state(1, np.uint64)[0]
        return torch.Generator().manual_seed(int(seed) >> 1)


@contextmanager
def seeded_dropout(ranker: Ranker, generator: torch.Generator) -> Iterator[None]:
    """Dropout draws from torch's global generators: seed them for a while, and put them back."""
    if not ranker.has_dropout:
        yield
        return
    with torch.random.fork_rng([ranker.device] if ranker.device.type == "cuda" else []):
        torch.manual_seed(int(torch.randint(2**62, (), generator=generator)))
        yield
