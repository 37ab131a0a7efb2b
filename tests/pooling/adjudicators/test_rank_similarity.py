from __future__ import annotations

from pooling.adjudicators.rank_similarity import Borda, Comb
from pooling.simulation import simulate

RANKINGS = [[3, 1, 2, 0], [4, 1, 3, 5], [2, 5, -1, -1]]


def order(method, pool_of):  # type: ignore[no-untyped-def]
    [judged] = simulate(method, pool_of([RANKINGS], [[0] * 6]), [0])
    return judged.documents[0].tolist()


def test_combsum_and_combmnz_by_hand(pool_of) -> None:  # type: ignore[no-untyped-def]
    # Similarities 1, .75, .5, .25 in runs of four and 1, .5 in the run of two.
    # 0: .25, 1: 1.5, 2: 1.5, 3: 1.5, 4: 1, 5: .75; times 1, 2, 2, 2, 1, 2 holders for CombMNZ: 5 goes before 4.
    assert order(Comb(0), pool_of) == [1, 2, 3, 4, 5, 0]
    assert order(Comb(1), pool_of) == [1, 2, 3, 5, 4, 0]


def test_borda_by_hand(pool_of) -> None:  # type: ignore[no-untyped-def]
    # Points 6, 5, 4, 3 and 1.5 for what a run of four lacks; 6, 5 and 2.5 for what the run of two lacks.
    # 0: 3 + 1.5 + 2.5 = 7, 1: 5 + 5 + 2.5 = 12.5, 2: 4 + 1.5 + 6 = 11.5, 3: 6 + 4 + 2.5 = 12.5,
    # 4: 1.5 + 6 + 2.5 = 10, 5: 1.5 + 3 + 5 = 9.5.
    assert order(Borda(), pool_of) == [1, 3, 2, 4, 5, 0]
