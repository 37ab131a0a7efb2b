import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pooling.across_topics import AcrossTopics, first_slots, pool_of_topics
from pooling.adjudicators.bandit.bandit import Bandit
from pooling.adjudicators.max_mean import MaxMean
from pooling.adjudicators.static import Rank
from pooling.campaign import Campaign
from pooling.pool import Pool
from pooling.rewards import Graded
from pooling.simulation import found_at, simulate

SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=6)


def test_topics_as_a_pool():
    sizes = np.array([2, 1, 3])
    assert first_slots(sizes).tolist() == [0, 2, 3]
    pool = pool_of_topics(sizes)
    assert pool.ranking.tolist() == [[0, 1, -1], [2, -1, -1], [3, 4, 5]]
    assert pool.lengths.tolist() == [2, 1, 3]
    assert pool.holders.tolist() == [0, 0, 1, 2, 2, 2]
    assert pool.size == 6


def test_the_guard_takes_turns():
    method = AcrossTopics(Rank(), Bandit(MaxMean()), 3)
    assert method.guard(np.array([2, 1, 4])).tolist() == [0, 1, 2, 0, 2, 2]
    assert AcrossTopics(Rank(), Bandit(MaxMean()), 0).guard(np.array([2, 1])).tolist() == []


@given(sizes=SIZES, least=st.integers(0, 12), seed=st.integers(0, 5), data=st.data())
def test_every_document_once_and_the_least_first(sizes, least, seed, data):
    method = AcrossTopics(Rank(), Bandit(MaxMean()), least)
    rewards = [np.array(data.draw(st.lists(st.sampled_from([0.0, 1.0]), min_size=n, max_size=n))) for n in sizes]
    turns = method.turns(np.array(sizes), rewards, seed)
    assert np.bincount(turns, minlength=len(sizes)).tolist() == sizes
    guarded = np.minimum(sizes, least)
    assert np.bincount(turns[: guarded.sum()], minlength=len(sizes)).tolist() == guarded.tolist()
    assert turns.tolist() == method.turns(np.array(sizes), rewards, seed).tolist()


def test_a_shared_budget_goes_where_it_pays(pool_of):
    # Nothing is relevant in the first topic, everything in the second: of a budget of 5 judgements a topic, 10 in all,
    # each has its 2, and the second takes what is left.
    documents = list(range(8))
    pool = pool_of([[documents], [documents]], [[0] * 8, [1] * 8])
    [order] = simulate(AcrossTopics(Rank(), Bandit(MaxMean()), 2), pool, [0])
    assert order.spent(5).tolist() == [2, 8]
    assert order.judged(1, 5).tolist() == documents
    assert found_at(pool, order, [5, 8]).tolist() == [[0, 8], [0, 8]]
    [alone] = simulate(Rank(), pool, [0])
    assert alone.spent(5).tolist() == [5, 5]


def test_topics_hear_the_same_in_a_campaign(random_pool):
    pool = random_pool(np.random.default_rng(4))
    for topic in pool.topics:
        topic.grades[:] *= np.random.default_rng(5).integers(1, 4, len(topic.grades))
    pool = Pool(pool.topics, pool.runs, pool.teams, pool.depth, 1, 3)
    for seed in range(5):
        method = AcrossTopics(Bandit(MaxMean()), Bandit(MaxMean(), reward=Graded()), 1)
        campaign, turns = Campaign(pool, method, seed), []
        while (asked := campaign.next()) is not None:
            turns.append(asked[0])
            campaign.judge(*asked, int(pool.topics[asked[0]].grades[asked[1]]))
        assert turns == simulate(method, pool, [seed])[0].turns.tolist()
