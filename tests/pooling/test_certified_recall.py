import numpy as np
import pytest
from scipy.stats import hypergeom

from pooling.certified_recall import CertifiedRecall, p_value
from pooling.judging_order import JudgingOrder
from pooling.knee import Knee
from pooling.stopping import FoundNothing, savings


def test_the_p_value_by_hand():
    # 9 found before; with 9 known of a recall of .9, 2 more in the rest would be one too many. A sample of 5 of 10.
    assert p_value(9, 0, 5, 10, 0.9) == pytest.approx(float(hypergeom.cdf(0, 10, 2, 5)))
    assert p_value(9, 0, 5, 10, 0.9) == pytest.approx((5 * 4) / (10 * 9))  # neither of two is in the sample
    assert p_value(90, 0, 5, 3, 0.9) == 0.0  # the rest can't hold as many as it would take


def test_the_knee_of_a_curve_that_turns_flat():
    relevant = np.zeros(400, bool)
    relevant[:50] = True
    rule = Knee(ratio=6, ease=0, least=60)
    # All found come first: slope 1 before the knee at 50, 1/(n - 50) behind it; 6 at 56, but not before 60.
    assert rule.first(relevant) == 60
    assert Knee(ratio=6, ease=0, least=0).first(relevant) == 56
    assert Knee(ratio=6, ease=60, least=0).first(relevant) == 66  # ten fewer than 60 found: ratio 16
    assert Knee(ease=0).first(np.zeros(150, bool)) == 150


def test_certified_recall_holds_as_often_as_it_says(pool_of):
    rng, reached, saved, topics, size = np.random.default_rng(2), [], [], 150, 300
    grades = []
    for _ in range(topics):
        likely = np.where(np.arange(size) < 60, 0.5, 0.03)  # a tail that a count of empty judgements cuts off
        grades.append((rng.random(size) < likely).astype(int).tolist())
    pool = pool_of([[list(range(size))]] * topics, grades)
    order = JudgingOrder([np.arange(size, dtype=np.int32)] * topics)
    hasty = FoundNothing(10)
    table = savings(pool, order, [hasty, CertifiedRecall(0.8, 0.9, first=20, after=hasty)], seed=1)
    reached, saved = table["reached"].to_list(), table["saved"].to_list()
    assert reached[1] >= 0.9 > 0.5
    assert saved[1] > 0.02, "what judges everything certifies nothing"
    assert table["target"].to_list() == [0.9, 0.8]
    again = savings(pool, order, [CertifiedRecall(0.8, 0.9, first=20, after=hasty)], seed=1)
    assert again["judged"][0] == table["judged"][1]
