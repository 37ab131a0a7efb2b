from typing import Any

import pytest

from ranking.errors import BadInput
from rl.plateau import Plateau


def episodes(values: list[float], bm25: list[float]) -> list[dict[str, Any]]:
    return [
        {"validation": value, "return": -value, "share:bm25": share, "share:random": 1 - share}
        for value, share in zip(values, bm25, strict=True)
    ]


# Windows of two: means .2, .4, .41; the standard errors of the differences are √(.0002 + .0002)/√2 = .0141.
VALUES = [0.19, 0.21, 0.39, 0.41, 0.40, 0.42]


def test_it_ends_where_two_stretches_are_alike():
    plateau = Plateau(window=2)
    found = episodes(VALUES, [0.5, 0.5, 0.7, 0.7, 0.75, 0.75])
    assert plateau.converged_at(found[:4]) is None  # gains .2
    assert plateau.converged_at(found[:5]) is None  # the next stretch is not whole
    assert plateau.converged_at(found) == 6  # gains .01, less than .0141; shares moved by .05
    assert plateau.converged_at([*found, *found]) == 6  # what comes later changes nothing


def test_a_gain_is_measured_in_standard_errors():
    found = episodes(VALUES, [0.7] * 6)
    assert Plateau(window=2, errors=0.7).converged_at(found) is None  # .01 > .7 · .0141
    assert Plateau(window=2, errors=0.72).converged_at(found) == 6
    assert Plateau(window=2, by="return").converged_at(found) == 4  # returns fall


def test_a_policy_that_still_moves_has_not_settled():
    found = episodes(VALUES, [0.5, 0.5, 0.5, 0.5, 0.7, 0.7])
    assert Plateau(window=2).converged_at(found) is None  # .2 on average
    assert Plateau(window=2, settled=0.21).converged_at(found) == 6


def test_nothing_is_compared_before_the_episodes_of_after():
    found = episodes([*VALUES, 0.41, 0.41], [0.7] * 8)
    assert Plateau(window=2, errors=20).converged_at(found) == 4
    assert Plateau(window=2, errors=20, after=5).converged_at(found) == 6


def test_an_agent_without_a_gain_over_the_random_one_has_not_converged():
    found = episodes([0.40, 0.42, 0.41, 0.43], [0.7] * 4)
    worse, alike = episodes([0.1, 0.12, 0.11], [0.5] * 3), episodes([0.41, 0.43, 0.42], [0.5] * 3)
    assert Plateau(window=2, gain=0.05).converged_at(found, worse) == 4
    assert Plateau(window=2, gain=0.05).converged_at(found, alike) is None
    with pytest.raises(BadInput, match="random agent"):
        Plateau(window=2, gain=0.05).converged_at(found)
