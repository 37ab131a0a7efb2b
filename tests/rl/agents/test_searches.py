"""Tests of agents that search: they find a known optimum, and go on by being told again what is known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ranking.errors import BadInput
from rl.agents.bandit import ThompsonSearch
from rl.agents.evolution import Evolution
from rl.agents.population import PopulationSearch
from rl.agents.schedule import ScheduleSearch
from rl.agents.search import PolicySearch, Search

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


@pytest.mark.parametrize(
    "agent",
    [
        Evolution(),
        ScheduleSearch(sampler="tpe", finalists=3, rounds=2),
        ScheduleSearch(candidates=4, finalists=4, rounds=1),
    ],
    ids=["evolution", "tpe", "gp"],
)
def test_a_search_comes_near_the_optimum_and_repeats_itself(agent: PolicySearch) -> None:
    generations = 4 if agent.candidates == 4 else GENERATIONS
    search, asked = searched(agent, generations)
    assert distance(search.result()) > max(-0.05, distance(asked[0]).mean())
    again, repeated = searched(agent, generations)
    assert all(np.array_equal(one, other) for one, other in zip(asked, repeated, strict=True))
    assert np.array_equal(search.result(), again.result())


def test_finalists_are_trained_again_and_the_luckiest_does_not_win() -> None:
    search = ScheduleSearch(candidates=4, sampler="tpe", finalists=2, rounds=1).start(3, 3, 0)
    first, second = search.ask(), None
    search.tell(first, np.array([0.1, 0.9, 0.8, 0.2]))  # the second was lucky
    second = search.ask()
    search.tell(second, np.zeros(4))
    finals = search.ask()
    assert np.array_equal(finals, first[[1, 2]])
    search.tell(finals, np.array([0.3, 0.8]))
    assert np.array_equal(search.result(), first[2])


def test_a_bandit_plays_good_arms_more_often_and_keeps_the_best() -> None:
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
    assert three.arms[:, [3, 5]].sum(1).max() == 1  # type: ignore[attr-defined]
    assert len(three.arms) == 12  # type: ignore[attr-defined]


def test_a_population_goes_on_from_those_ahead_with_what_gains_most() -> None:
    search = PopulationSearch(candidates=8, parts=3).start(1, 9, 0)
    before = np.zeros((8, 3))
    for _ in range(3):
        level = np.zeros(8)
        for part in range(3):
            assert search.until == pytest.approx((part + 1) / 3)
            lines = search.ask()
            parents = [search.parent(each) for each in range(8)]
            assert (parents == [None] * 8) == (part == 0)
            if part:
                moved = [each for each in range(8) if parents[each] != each]
                assert set(moved) == set(np.argsort(level)[:2])
                assert all(parents[each] in np.argsort(level)[-2:] for each in moved)
                for each in moved:  # what was done before stays as it was done
                    assert np.array_equal(lines[each, :part], before[parents[each], :part])
                level = level[parents]  # type: ignore[index]
            # Easy first gains, and hard later.
            level = level + 1 - (lines[:, part] - (0.2 if part == 0 else 0.8)) ** 2
            search.tell(lines, level)
            before = lines
    assert search.result()[0] == pytest.approx(0.2, abs=0.15)
    assert search.result()[1:] == pytest.approx([0.8, 0.8], abs=0.25)
    again = PopulationSearch(candidates=8, parts=3).start(1, 9, 0)
    assert np.array_equal(again.ask(), PopulationSearch(candidates=8, parts=3).start(1, 9, 0).ask())


def test_bad_options_are_refused() -> None:
    with pytest.raises(BadInput, match="candidates"):
        Evolution(candidates=3)
    with pytest.raises(BadInput, match="sigma"):
        Evolution(sigma=0)
    with pytest.raises(BadInput, match="sampler"):
        ScheduleSearch(sampler="grid")
    for bad in ({"parts": 1}, {"quantile": 0.6}, {"quantile": 0.1}, {"kappa": -1}):
        with pytest.raises(BadInput, match=next(iter(bad))):
            PopulationSearch(**bad)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="levels"):
        ThompsonSearch(levels=1)
    with pytest.raises(BadInput, match="finalists"):
        ScheduleSearch(candidates=4, finalists=5)
