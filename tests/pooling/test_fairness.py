import numpy as np

from pooling.adjudicators.bandit.bandit import Bandit
from pooling.adjudicators.max_mean import MaxMean
from pooling.adjudicators.shallow_first import ShallowFirst
from pooling.fairness import fairness
from pooling.judging_order import JudgingOrder
from pooling.simulation import simulate


def test_fairness_by_hand(pool_of):
    # Run 0 and 1 are one team: document 0 is theirs alone, 2 is held by both teams, 3 by run 2 alone.
    pool = pool_of([[[0, 1, 2], [1, 0, 2], [2, 3, -1]]], [[1, 0, 1, 1]], teams=["a", "a", "b"])
    order = JudgingOrder([np.array([0, 1, 2, 3], np.int32)])
    table = fairness(pool, order, [1, 2, 3, 4])
    assert table["unique"].to_list() == [1.0, 1.0, 0.5, 2 / 3]
    # Judged 0: depths 1, 0, 0; 0 and 1: 2, 2, 0; and 2: 3, 3, 1; all: 3, 3, 2 (a short run is judged to its end).
    assert np.allclose(table["depth"].to_list(), [1 / 3, 4 / 3, 7 / 3, 8 / 3])
    assert table["least_run"].to_list()[1:] == ["run2"] * 3
    assert table["depth_least"].to_list()[1:] == [0, 1, 2]
    assert table["crowded"].to_list() == [1, 1, 1, 1]


def test_shallow_first_judges_all_runs_alike_first(random_pool):
    pool = random_pool(np.random.default_rng(3), topics=2)
    [fair] = simulate(ShallowFirst(Bandit(MaxMean()), depth=3), pool, [0])
    for topic, documents in zip(pool.topics, fair.documents, strict=True):
        tops = set(topic.pool.ranking[:, :3].ravel().tolist())
        assert set(documents[: len(tops)].tolist()) == tops
    [greedy] = simulate(Bandit(MaxMean()), pool, [0])
    budget = max(len(set(topic.pool.ranking[:, :3].ravel().tolist())) for topic in pool.topics)
    least = [fairness(pool, order, [budget])["depth_least"][0] for order in (fair, greedy)]
    assert least[0] >= 3 > least[1]
