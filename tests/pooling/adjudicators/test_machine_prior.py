import numpy as np
import pytest

from pooling.adjudicators.adjudicator import judging_order, topic_rng
from pooling.adjudicators.machine_prior import MachinePrior
from pooling.pool import Pool, with_machine
from ranking.errors import BadInput
from tests.pooling.made_up import qrels_of


@pytest.fixture
def pool(pool_of) -> Pool:
    """Eight documents that a run ranks by their number, the last four relevant."""
    return pool_of([[list(range(8))]], [[0, 0, 0, 0, 1, 1, 1, 1]])


def graded(pool: Pool, grades: list[int]) -> Pool:
    return with_machine(pool, qrels_of(*(("1", f"d{number:03}", grade) for number, grade in enumerate(grades))))


def order_of(pool: Pool) -> list[int]:
    [topic] = pool.topics
    return judging_order(MachinePrior(), topic.pool, topic.grades.astype(float), topic_rng(0, "1"), pool.runs).tolist()


def test_what_the_machine_finds_relevant_comes_first_and_then_ranks_decide(pool):
    assert order_of(graded(pool, [0, 0, 0, 0, 1, 1, 1, 1])) == [4, 5, 6, 7, 0, 1, 2, 3]


def test_a_machine_that_is_wrong_is_soon_believed_no_more(pool_of):
    # Thirty that it has for relevant are not. Its word's odds fall to 1.8 / (n + .2), below .2 / 1.8 of the others from
    # n = 16 on (ranks weigh little beside); from the first relevant one on the others lead.
    truth = [0] * 30 + [1] * 30
    order = order_of(graded(pool_of([[list(range(60))]], [truth]), [1 - grade for grade in truth]))
    assert max(order[:10]) < 30
    first = next(place for place, document in enumerate(order) if document >= 30)
    assert 12 <= first <= 24
    assert min(order[first : first + 30]) >= 30


def test_grades_of_other_topics_are_refused(pool):
    with pytest.raises(BadInput, match="no document of the pool"):
        with_machine(pool, qrels_of(("9", "d000", 1)))
    with pytest.raises(BadInput, match="no grades of a machine"):
        MachinePrior().start(pool.topics[0].pool, np.random.default_rng(0), ["run0"])
