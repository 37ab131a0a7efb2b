"""Tests of `rl.draws`."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rl.draws import draw_action, inverse_cdf


def rows_of(choices: int) -> st.SearchStrategy[list[list[float]]]:
    """Logits of one to three picks among as many choices."""
    row = st.lists(st.floats(-50, 50, width=32), min_size=choices, max_size=choices)
    return st.lists(row, min_size=1, max_size=3)


def test_a_draw_is_the_inverse_of_the_distribution_function():
    chances = np.array([0.2, 0.5, 0.3])
    for copy in range(50):
        uniform = np.random.default_rng([7, copy, 3]).random()
        (pick,), log_chance = draw_action(np.log(chances).astype(np.float32)[None], 7, copy, 3)
        assert pick == (0 if uniform < 0.2 else 1 if uniform < 0.7 else 2)
        assert np.isclose(log_chance, np.log(chances[pick]), atol=1e-6)


def test_a_draw_has_a_name():
    logits = np.zeros((1, 1000), np.float32)
    names = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
    picks = [int(draw_action(logits, *name)[0][0]) for name in names]
    assert picks == [int(draw_action(logits, *name)[0][0]) for name in names]
    assert len(set(picks)) == 4


@given(rows=st.integers(2, 6).flatmap(rows_of), decision=st.integers(0, 100))
def test_picks_are_drawn_apart_and_their_chances_multiply(rows, decision):
    picks, log_chance = draw_action(np.array(rows, np.float32), 0, 0, decision)
    expected = 0.0
    for pick, row in zip(picks, rows, strict=True):
        assert 0 <= pick < len(row)
        expected += row[pick] - np.logaddexp.reduce(row)
    assert np.isclose(log_chance, expected, atol=1e-6)


def test_what_is_nearly_certain_is_drawn():
    for decision in range(20):
        assert draw_action(np.array([[0.0, 800.0, -800.0]], np.float32), 0, 0, decision)[0].tolist() == [1]


@given(
    st.lists(st.lists(st.floats(-30, 30), min_size=3, max_size=3), min_size=1, max_size=4),
    st.lists(st.floats(0, 1, exclude_max=True), min_size=2, max_size=2),
)
def test_places_are_drawn_as_one_action_is(logits, uniform):
    rows = np.array(logits)
    places = inverse_cdf(rows, np.tile(uniform, (len(rows), 1)))
    for row, own in zip(rows, places, strict=True):
        for chance, place in zip(uniform, own, strict=True):
            edges = np.cumsum(np.exp(row - row.max()) / np.exp(row - row.max()).sum())
            if np.abs(edges - chance).min() > 1e-12:  # but for draws that rounding decides
                assert place == np.searchsorted(edges, chance, side="right")
