"""Tests of agents that search: they find a known optimum, and go on by being told again what is known."""

import numpy as np
import pytest
from numpy.typing import NDArray

from pyrite.ranking.errors import BadInput
from pyrite.rl.agents.bandit import ThompsonSearch
from pyrite.rl.agents.evolution import Evolution
from pyrite.rl.agents.schedule import ScheduleSearch
from pyrite.rl.agents.search import PolicySearch, Search
from pyrite.rl.progress import TYPICAL
from tests.ranking.trained import equal

GENERATIONS = 10


def distance(candidates: NDArray[np.float64]) -> NDArray[np.float64]:
    """How near they are to .7 in each parameter; 0 is the best."""
    return -np.square(candidates - 0.7).sum(axis=-1)


def searched(agent: PolicySearch, generations: int = GENERATIONS) -> tuple[Search, list[NDArray[np.float64]]]:
    search, asked = agent.start(3, generations, 5), []
    for _ in range(generations):
        asked.append(search.ask())
        search.tell(asked[-1], distance(asked[-1]))
    return search, asked


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    "agent",
    [
        Evolution(sigma=0.7),
        ScheduleSearch(sampler="tpe", finalists=3, rounds=2),
        ScheduleSearch(candidates=4, finalists=4, rounds=1),
    ],
    ids=["evolution", "tpe", "gp"],
)
def test_a_search_comes_near_the_optimum_and_repeats_itself(agent):
    generations = 4 if agent.candidates == 4 else GENERATIONS
    search, asked = searched(agent, generations)
    assert distance(search.result()) > max(-0.05, distance(asked[0]).mean())
    again, repeated = searched(agent, generations)
    assert equal((asked, search.result()), (repeated, again.result()))


def test_finalists_are_trained_again_and_the_luckiest_does_not_win():
    search = ScheduleSearch(candidates=4, sampler="tpe", finalists=2, rounds=1).start(3, 3, 0)
    first, second = search.ask(), None
    search.tell(first, np.array([0.1, 0.9, 0.8, 0.2]))  # the second was lucky
    second = search.ask()
    search.tell(second, np.zeros(4))
    finals = search.ask()
    assert np.array_equal(finals, first[[1, 2]])
    search.tell(finals, np.array([0.3, 0.8]))
    assert np.array_equal(search.result(), first[2])
    with pytest.raises(BadInput, match="finalists"):  # no more than candidates
        ScheduleSearch(candidates=4, finalists=5)


def test_a_bandit_plays_good_arms_more_often_and_keeps_the_best():
    rng, plays = np.random.default_rng(0), np.zeros((5, 4))
    search = ThompsonSearch(candidates=3).start(7, 20, 0)  # a share and a window
    for _ in range(20):
        arms = search.ask()
        assert len(np.unique(arms, axis=0)) == 3
        assert np.array_equal(arms[:, 3::2], arms[:, 4::2])  # constant
        share, window = arms[:, 3], arms[:, 5]
        np.add.at(plays, (np.round(share * 4).astype(int), np.round(window * 3).astype(int)), 1)
        search.tell(arms, 0.5 - (share - 0.75) ** 2 - window / 5 + rng.normal(0, 0.01, 3))
    assert search.result()[3::2] == pytest.approx([0.75, 0.0])
    assert plays[3, 0] >= 8
    assert plays.sum() == 60
    three = ThompsonSearch(levels=3, windows=2).start(9, 1, 0)  # two shares, which add up to 1 at most
    assert three.arms[:, [3, 5]].sum(1).max() == 1
    assert len(three.arms) == 12


def test_evolution_weighs_scaled_features():
    """A candidate's weight of a scaled feature is one of the feature itself, and the constant takes up its mean."""
    features = ["one", "near", "spent"]
    scaled, plain = Evolution().start(6, 1, 0, features).ask(), Evolution().start(6, 1, 0).ask()
    state = np.array([1.0, 0.3, -0.2])
    standard = np.array([1.0, (0.3 - TYPICAL["near"][0]) / TYPICAL["near"][1], -0.2 / TYPICAL["spent"][1]])
    for one, other in zip(scaled, plain, strict=True):
        assert one.reshape(2, 3) @ state == pytest.approx(other.reshape(2, 3) @ standard)
