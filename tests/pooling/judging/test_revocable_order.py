import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrite.pooling.across_topics import AcrossTopics
from pyrite.pooling.adjudicators.bandit.bandit import Bandit
from pyrite.pooling.adjudicators.max_mean import MaxMean
from pyrite.pooling.adjudicators.move_to_front import MoveToFront
from pyrite.pooling.adjudicators.thompson import Thompson
from pyrite.pooling.judging.revocable_order import Place, RevocableOrder, Step
from pyrite.pooling.pool import Pool

FIRST_TIES = Bandit(MoveToFront(), ties="first")


@pytest.fixture
def pool(pool_of) -> Pool:
    """Two runs without a document in common."""
    return pool_of([[[0, 1, 2, 3], [4, 5, 6, 7]]], [[0, 0, 0, 0, 1, 1, 0, 0]])


@pytest.fixture
def orders(pool) -> RevocableOrder:
    return RevocableOrder(pool, FIRST_TIES, 0)


def hand_out(orders: RevocableOrder, event: int) -> Place:
    place = orders.offer(0)
    orders.add(event, Step(place))
    return place


def test_an_offer_stays_until_it_is_handed_out(orders):
    assert orders.offer(0) == orders.offer(0) == hand_out(orders, 1)
    assert orders.offer(0) == (0, 1)


def test_what_others_have_stays_out_when_a_judgement_is_forgotten(orders):
    hand_out(orders, 1)
    orders.add(2, Step((0, 0), 0))
    assert hand_out(orders, 3) == (0, 4)  # to another assessor, because of the judgement
    orders.forget(2)
    # The campaign made anew chose 1 in place of 4: that is next, and 4 does not come again.
    rest = [hand_out(orders, event) for event in range(4, 10)]
    assert rest[0] == (0, 1)
    assert sorted(rest) == [(0, document) for document in (1, 2, 3, 5, 6, 7)]
    assert orders.offer(0) is None


def test_the_first_of_several_judgements_is_heard(orders):
    hand_out(orders, 1)
    orders.add(2, Step((0, 0), 1))
    orders.add(3, Step((0, 0), 0))
    assert orders.offer(0) == (0, 1)  # it stays with the first run
    orders.forget(2)
    assert orders.offer(0) == (0, 4)  # the second judgement is the first one now


def test_known_judgements_are_heard_and_never_offered(pool):
    orders = RevocableOrder(pool, FIRST_TIES, 0, [((0, 0), 0), ((0, 4), 1)])
    assert [hand_out(orders, event) for event in range(6)] == [(0, document) for document in (5, 6, 7, 1, 2, 3)]


def test_topics_go_by_their_numbers_in_the_whole_pool(random_pool):
    pool = random_pool(np.random.default_rng(1))
    for number, topic in enumerate(pool.topics):
        alone = RevocableOrder(pool.only([topic.name]), Bandit(MaxMean()), 0, first=number)
        together = RevocableOrder(pool, Bandit(MaxMean()), 0)
        for event in range(0, 20, 2):
            place = together.offer(number)
            assert alone.offer(number) == place
            for orders in (alone, together):
                orders.add(event, Step(place))
                orders.add(event + 1, Step(place, int(topic.grades[place[1]])))


@given(
    st.lists(st.tuples(st.sampled_from("ojjfc"), st.integers(0, 30)), max_size=40),
    st.sampled_from([lambda: Bandit(Thompson()), lambda: AcrossTopics(Bandit(Thompson()), Bandit(MaxMean()), least=2)]),
)
def test_going_back_to_a_remembered_state_is_going_through_all_steps_again(random_pool, acts, method):
    pool = random_pool(np.random.default_rng(5), topics=2, documents=14, depth=8)
    across = isinstance(method(), AcrossTopics)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("pyrite.pooling.judging.revocable_order.SAVE_EVERY", 3)
        known = [((0, 1), 1), ((1, 2), 0)]
        orders, steps, saved = RevocableOrder(pool, method(), 0, known), dict[int, Step](), False
        for event, (act, number) in enumerate(acts):
            out = [step.place for step in steps.values() if step.grade is None]
            heard = {step.place: each for each, step in steps.items() if step.grade is not None}
            waiting = [place for place in out if place not in heard]
            step = None
            if act == "o" and (place := orders.offer(None if across else number % 2)) is not None:
                step = Step(place, None, across)
            elif act == "j" and waiting:
                step = Step(waiting[number % len(waiting)], number % 3 // 2)
            elif act == "f" and heard:
                forgotten = list(heard.values())[-1 - number % min(len(heard), 3)]
                orders.forget(forgotten)
                del steps[forgotten]
            elif act == "c" and heard:
                corrected = list(heard.values())[number % len(heard)]
                steps[corrected] = steps[corrected]._replace(grade=number % 2)
                orders.add(corrected, steps[corrected])
            if step is not None:
                steps[event] = step
                orders.add(event, step)
            saved |= bool(orders._saved)
        patched.setattr("pyrite.pooling.judging.revocable_order.SAVE_EVERY", 10**9)
        anew = RevocableOrder(pool, method(), 0, known)
        for event, step in steps.items():
            anew.add(event, step)
        for topic in (0, 1):
            assert orders.offer(topic) == anew.offer(topic)
        assert orders._given == anew._given
        assert orders._heard == anew._heard
