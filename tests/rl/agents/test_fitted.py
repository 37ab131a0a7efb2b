"""Tests of the regression on logged trainings: it finds what was worth most in which state."""

from __future__ import annotations

import numpy as np
import pytest

from ranking.errors import BadInput
from rl.agents.evolution import Evolution
from rl.agents.fitted import FittedQ, LoggedTraining
from rl.mixture import LinearRule


def logged(trainings: int = 200, noise: float = 0.02) -> list[LoggedTraining]:
    """Five decisions each: early in a training a large share costs, late it gains; the window is best in the middle.

    A state is 1, the time, and what was gained so far, without which no state would say what is to come.
    """
    rng, found = np.random.default_rng(0), []
    for _ in range(trainings):
        spent = np.linspace(-1, 1, 5)
        actions = rng.random((5, 2))
        gains = (spent * actions[:, 0] - (actions[:, 1] - 0.5) ** 2) / 10
        states = np.stack([np.ones(5), spent, gains.cumsum() - gains], axis=1)
        found.append(LoggedTraining(states, actions, float(gains.sum() + rng.normal(0, noise))))
    return found


@pytest.mark.parametrize("iterations", [0, 4])
def test_the_best_action_depends_on_the_state_as_it_was_made_up(iterations: int) -> None:
    fitted = FittedQ(logged(), 1, iterations)
    best = fitted.best(np.array([[1.0, -1.0, 0.0], [1.0, 1.0, 0.0]]))
    assert best[:, 0].tolist() == [0.02, 0.98]
    assert best[:, 1] == pytest.approx([0.5, 0.5], abs=0.25 if iterations else 0)
    rule = LinearRule(fitted.linear_rule(1), 2, 1, ("one", "spent", "gain"))
    early, late = (rule(np.array([1.0, spent, 0.0])) for spent in (-1, 1))
    assert early[0][1] < 0.2 < 0.8 < late[0][1]
    assert early[1] == pytest.approx([0.5], abs=0.25)


def test_an_iteration_takes_the_best_of_what_follows_for_its_value() -> None:
    """Of two decisions the second alone gains, what it chooses: half on average, and all at best."""
    rng, states = np.random.default_rng(0), np.array([[1.0, -1.0], [1.0, 1.0]])
    drawn = rng.random((80, 2, 1))
    trainings = [LoggedTraining(states, actions, float(actions[1, 0])) for actions in drawn]
    once, again = (FittedQ(trainings, 1, iterations, ridge=1e-6).values(states[:1]) for iterations in (0, 1))
    assert once == pytest.approx(np.full((1, 5), drawn[:, 1].mean()), abs=0.2)
    assert again == pytest.approx(np.full((1, 5), 0.98), abs=0.02)


def test_shares_add_up_to_one_at_most() -> None:
    rng = np.random.default_rng(0)
    trainings = [LoggedTraining(np.ones((3, 1)), rng.random((3, 2)) / 2, rng.random()) for _ in range(9)]
    fitted = FittedQ(trainings, 2)
    assert fitted.grid.sum(axis=1).max() <= 1
    shares, _ = LinearRule(fitted.linear_rule(2), 3, 0, ("one",))(np.ones(1))
    assert shares.sum() == pytest.approx(1)


def test_evolution_begins_at_what_it_found_and_too_little_is_refused() -> None:
    warm = Evolution(sigma=0.001, iterations=1).start(6, 3, 0, logged())
    cold = Evolution(sigma=0.001).start(6, 3, 0)
    begin = FittedQ(logged(), 1, 1).linear_rule(1)
    assert warm.ask() == pytest.approx(np.tile(begin, (8, 1)), abs=0.01)
    assert cold.ask() == pytest.approx(np.zeros((8, 6)), abs=0.01)
    with pytest.raises(BadInput, match="warm_start"):
        FittedQ(logged(1), 1)
    with pytest.raises(BadInput, match="iterations"):
        Evolution(iterations=-1)
