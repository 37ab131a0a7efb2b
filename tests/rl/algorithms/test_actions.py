from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rl.algorithms.actions import best, draw

logits_of = st.lists(st.floats(-50, 50, width=32), min_size=2, max_size=6)


def test_a_draw_is_the_inverse_of_the_distribution_function() -> None:
    chances = np.array([0.2, 0.5, 0.3])
    for copy in range(50):
        uniform = np.random.default_rng([7, copy, 3]).random()
        (pick,), log_chance = draw(np.log(chances).astype(np.float32), [3], 7, copy, 3)
        assert pick == (0 if uniform < 0.2 else 1 if uniform < 0.7 else 2)
        assert np.isclose(log_chance, np.log(chances[pick]), atol=1e-6)


def test_draws_come_as_often_as_they_should() -> None:
    chances = np.array([0.1, 0.6, 0.3])
    picks = [draw(np.log(chances).astype(np.float32), [3], 0, copy, 5)[0][0] for copy in range(4000)]
    assert np.allclose(np.bincount(picks) / 4000, chances, atol=0.03)


def test_a_draw_has_a_name() -> None:
    logits = np.zeros(1000, np.float32)
    names = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
    picks = [int(draw(logits, [1000], *name)[0][0]) for name in names]
    assert picks == [int(draw(logits, [1000], *name)[0][0]) for name in names]
    assert len(set(picks)) == 4


@given(first=logits_of, second=logits_of, decision=st.integers(0, 100))
def test_picks_are_drawn_apart_and_their_chances_multiply(
    first: list[float], second: list[float], decision: int
) -> None:
    sizes = [len(first), len(second)]
    picks, log_chance = draw(np.array(first + second, np.float32), sizes, 0, 0, decision)
    expected = 0.0
    for pick, block in zip(picks, (np.array(first), np.array(second)), strict=True):
        assert 0 <= pick < len(block)
        expected += block[pick] - np.logaddexp.reduce(block)
    assert np.isclose(log_chance, expected, atol=1e-6)


@given(logits=logits_of)
def test_the_best_is_the_most_probable(logits: list[float]) -> None:
    picks, log_chance = best(np.array(logits, np.float32), [len(logits)])
    assert picks[0] == int(np.argmax(logits))
    assert np.isclose(log_chance, max(logits) - np.logaddexp.reduce(logits), atol=1e-6)


def test_what_is_nearly_certain_is_drawn() -> None:
    for decision in range(20):
        assert draw(np.array([0.0, 800.0, -800.0], np.float32), [3], 0, 0, decision)[0].tolist() == [1]
