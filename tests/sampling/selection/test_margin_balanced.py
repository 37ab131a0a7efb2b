from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ranking.errors import BadInput
from ranking.pair_scores import PairScores
from ranking.training import Batch
from sampling.selection.margin_balanced import MarginBalanced
from tests.sampling.batches import listed

BATCH = Batch(np.zeros(6000, np.int64), np.full(6000, 9, np.int32))


def training(scores: dict[int, float]) -> Any:
    documents, values = np.array(list(scores), int), np.array([*scores.values()])
    return SimpleNamespace(teacher=PairScores.of(np.zeros(len(scores), int), documents, values, 10))


def test_bins_are_drawn_evenly_and_documents_within_them():
    """Seven documents far below the positive and one near it: half of the draws are of that one."""
    scores = {place: float(place) / 100 for place in range(7)} | {7: 5.0}
    one = MarginBalanced(bins=2, candidates=8)
    picked = one.select(BATCH, listed([range(8)]), 1, training(scores), np.random.default_rng(0))
    counts = np.bincount(picked.documents[:, 0], minlength=8) / len(BATCH)
    assert counts[7] == pytest.approx(0.5, abs=0.03)
    assert counts[:7] == pytest.approx(np.full(7, 1 / 14), abs=0.02)


def test_what_the_teacher_does_not_know_is_a_bin_of_its_own():
    one = MarginBalanced(bins=2, candidates=4)
    picked = one.select(BATCH, listed([range(4)]), 1, training({0: 1.0, 1: 9.0}), np.random.default_rng(0))
    counts = np.bincount(picked.documents[:, 0], minlength=4) / len(BATCH)
    assert counts == pytest.approx([1 / 3, 1 / 3, 1 / 6, 1 / 6], abs=0.03)
    nothing = one.select(BATCH, listed([range(4)]), 4, training({}), np.random.default_rng(0))
    assert (np.sort(nothing.documents, axis=1) == np.arange(4)).all()


def test_without_a_teacher_it_is_refused():
    with pytest.raises(BadInput, match="there is no teacher"):
        MarginBalanced().start_run({}, SimpleNamespace(teacher=None))
