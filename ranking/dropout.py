"""Seeds the dropout of an update, so that it depends only on the run's seed, the step and the rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from pyrite.ranking.rankers.ranker import Ranker


class DropoutSeeds:
    """The dropout generators of a training, one for each part of each step.

    Args:
        rng: the generator of the order of examples. The seed is a child of its sequence, so the order does not change.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        (child,) = rng.bit_generator.seed_seq.spawn(1)  # type: ignore[attr-defined]
        self._seed = int(child.generate_state(1, np.uint32)[0])

    def generator(self, step: int, row: int) -> torch.Generator:
        """Return the generator for the rows from `row` on at a step."""
        seed = np.random.SeedSequence([self._seed, step, row]).generate_state(1, np.uint64)[0]
        return torch.Generator().manual_seed(int(seed) >> 1)


@contextmanager
def seeded_dropout(ranker: Ranker, generator: torch.Generator) -> Iterator[None]:
    """Seed torch's global generators, from which dropout draws, and restore them afterwards.

    No ranker is asked whether it has dropout: it may come from its checkpoint, an adapter, a module after its
    transformer, or a function that nothing declares.
    """
    sources, device = [torch.default_generator], ranker.device
    if device.type == "cuda":
        sources.append(torch.cuda.default_generators[device.index])
    states = [source.get_state() for source in sources]
    seed = int(torch.randint(2**62, (), generator=generator))
    try:
        for source in sources:
            source.manual_seed(seed)
        yield
    finally:
        for source, state in zip(sources, states, strict=True):
            source.set_state(state)
