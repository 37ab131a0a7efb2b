"""Turns among the replicas of a shard."""

from __future__ import annotations

from cluster.index.turns import AWAY, Turns


def test_each_replica_of_a_shard_comes_first_in_its_turn() -> None:
    turns = Turns(2, 3)
    assert turns.places(1) == [1, 3, 5]
    asked = [[turns.order(number) for number in range(2)] for _ in range(4)]
    assert asked == [
        [[0, 2, 4], [1, 3, 5]],
        [[2, 4, 0], [3, 5, 1]],
        [[4, 0, 2], [5, 1, 3]],
        [[0, 2, 4], [1, 3, 5]],
    ]


def test_one_that_is_lost_is_asked_last_and_after_a_while_in_its_turn_again() -> None:
    now = 0.0
    turns = Turns(1, 2, lambda: now)
    turns.lose(0)
    assert [turns.order(0) for _ in range(2)] == [[1, 0], [1, 0]]
    assert turns.lost == frozenset()
    now = AWAY
    assert turns.order(0) == [0, 1]
    turns.lose(0)
    turns.lose(1)
    assert turns.lost == {0}
    turns.find(1)
    assert turns.lost == frozenset()
    assert turns.order(0) == [1, 0]
