from __future__ import annotations

from pooling.adjudicators.minimal_test_collection import MinimalTestCollection
from pooling.simulation import simulate


def test_what_sets_runs_apart_is_judged_first(pool_of) -> None:  # type: ignore[no-untyped-def]
    # Documents 0 and 3 stand alike in both runs and can decide nothing between them; 1 and 2 change places.
    for grades in ([0] * 4, [1] * 4):
        [judged] = simulate(MinimalTestCollection(), pool_of([[[0, 1, 2, 3], [0, 2, 1, 3]]], [grades]), [0])
        assert judged.documents[0].tolist() == [1, 2, 0, 3]


def test_a_document_of_one_run_comes_before_what_both_hold(pool_of) -> None:  # type: ignore[no-untyped-def]
    [judged] = simulate(MinimalTestCollection(), pool_of([[[0, 1], [0, 2]]], [[1, 0, 1]]), [0])
    assert judged.documents[0].tolist() == [1, 2, 0]
