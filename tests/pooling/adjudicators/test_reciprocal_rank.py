from __future__ import annotations

from pooling.adjudicators.reciprocal_rank import ReciprocalRank
from pooling.simulation import simulate

RANKINGS = [[3, 1, 2, 0], [4, 1, 3, 5], [2, 5, -1, -1]]


def test_what_many_runs_rank_high_comes_first(pool_of) -> None:
    # 1/(1 + rank) is 1/2, 1/3, 1/4, 1/5. 0: .2, 1: .667, 2: .75, 3: .75, 4: .5, 5: .533; 2 is before 3 by its id.
    for grades in ([0] * 6, [1] * 6):  # whatever the judgements say
        [judged] = simulate(ReciprocalRank(1, "first"), pool_of([RANKINGS], [grades]), [0])
        assert judged.documents[0].tolist() == [2, 3, 1, 5, 4, 0]


def test_a_large_constant_counts_holders(pool_of) -> None:
    # 2 and 3 and 1 are held twice, as is 5; the best of them by rank comes first.
    [judged] = simulate(ReciprocalRank(1e6, "first"), pool_of([RANKINGS], [[0] * 6]), [0])
    assert set(judged.documents[0][:4].tolist()) == {1, 2, 3, 5}
